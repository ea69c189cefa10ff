// Trains a small convolutional network on Fashion-MNIST with clprim alone: no PyTorch, no Python.
//
//     train_fashion_mnist [--data FOLDER] [--device NAME] [--epochs N] [--steps N] [--batch N] [--solver adam|sgd]
//                         [--lr RATE] [--norm batch|none] [--weights FILE] [--save FILE] [--losses FILE]
//
// FOLDER holds the idx files, plain or with .gz. Batches are taken in the order of the file. --weights starts from a
// file (.safetensors, .npz, .dlp) instead of random values; --losses writes the loss of every step.
#include <zlib.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <clprim/clprim.hpp>
#include <clprim/copy.hpp>
#include <clprim/solver.hpp>

namespace {

using namespace clprim;

// An idx file of bytes: a magic number, big-endian sizes, the data. gzread takes plain files as they are.
struct IdxFile {
    std::vector<std::uint32_t> sizes;
    std::vector<unsigned char> data;

    IdxFile(const std::string& folder, const std::string& name)
    {
        gzFile file = nullptr;
        for (const char* suffix : {"", ".gz"})
            if (!file)
                file = gzopen((folder + "/" + name + suffix).c_str(), "rb");
        require(file != nullptr, "there is no ", name, " in ", folder);
        const auto word = [&] {
            unsigned char bytes[4] = {};
            require(gzread(file, bytes, 4) == 4, name, " is truncated");
            return std::uint32_t(bytes[0]) << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
        };
        const std::uint32_t magic = word();
        require(magic >> 8 == 8 && (magic & 255) >= 1 && (magic & 255) <= 3, name, " is no idx file of bytes");
        std::size_t count = 1;
        for (std::uint32_t i = 0; i < (magic & 255); ++i) {
            sizes.push_back(word());
            count *= sizes.back();
            require(count < (std::size_t(1) << 30), name, " is too large");
        }
        data.resize(count);
        require(gzread(file, data.data(), static_cast<unsigned>(count)) == static_cast<int>(count), name,
                " is truncated");
        gzclose(file);
    }
};

struct Data {
    IdxFile images, labels;
    std::size_t count, pixels;

    Data(const std::string& folder, const std::string& prefix)
        : images(folder, prefix + "-images-idx3-ubyte"), labels(folder, prefix + "-labels-idx1-ubyte"),
          count(labels.data.size()), pixels(count ? images.data.size() / count : 0)
    {
        require(pixels == 28 * 28 && images.data.size() == count * pixels, "images and labels do not fit each other");
    }

    // Writes the batch that begins at image `first` to the net's inputs; images get about unit variance.
    void write(Net& net, std::size_t first, std::size_t batch) const
    {
        std::vector<float> pixel(batch * pixels);
        for (std::size_t i = 0; i < pixel.size(); ++i)
            pixel[i] = (static_cast<float>(images.data[first * pixels + i]) / 255 - 0.286f) / 0.353f;
        const std::vector<std::int64_t> label(labels.data.begin() + static_cast<std::ptrdiff_t>(first),
                                              labels.data.begin() + static_cast<std::ptrdiff_t>(first + batch));
        const Tensor x = net.tensor("images"), y = net.tensor("labels");
        net.queue().write(*x.memory, 0, pixel.data(), x.nbytes());   // neither waits: small sources are copied aside
        net.queue().write(*y.memory, 0, label.data(), y.nbytes());
    }
};

// Two blocks of convolution, batch norm (if asked for), activation and pooling, then two fully connected layers.
Net make_net(Context& context, std::int64_t batch, bool batch_norm)
{
    Net net(context);
    net.add_input("images", {{batch, 1, 28, 28}});
    net.add_input("labels", {{batch}, DataType::int64});
    std::string last = "images";
    const auto add = [&](const auto& config, const std::string& name, const std::vector<std::string>& parameters) {
        net.add_operator(make_operator(config), name, {last}, {name}, parameters);
        last = name;
    };
    for (const std::string block : {"1", "2"}) {
        const std::int64_t channels = block == "1" ? 16 : 32;
        add(ConvolutionConfig{.channels_out = channels, .kernel = {3}, .pad = {1}}, "conv" + block,
            {"conv" + block + ".weight", "conv" + block + ".bias"});
        if (batch_norm)
            add(BatchNormConfig{}, "norm" + block,
                {"norm" + block + ".running_mean", "norm" + block + ".running_var", "norm" + block + ".weight",
                 "norm" + block + ".bias"});
        add(ActivationConfig{Activation::relu}, "relu" + block, {});
        add(PoolingConfig{.kernel = {2}, .stride = {2}}, "pool" + block, {});
    }
    add(InnerProductConfig{.outputs = 128, .activation = Activation::relu}, "fc1", {"fc1.weight", "fc1.bias"});
    add(InnerProductConfig{.outputs = 10}, "fc2", {"fc2.weight", "fc2.bias"});
    net.add(SoftmaxWithLossConfig{}, "loss", {last, "labels"}, {"loss"});
    net.mark_output(last);
    net.mark_output("loss");
    return net;
}

// Share of the test images whose largest score is that of their label.
double accuracy(Net& net, const Data& data, std::size_t batch)
{
    net.mode(NetMode::predict);
    std::size_t right = 0, seen = 0;
    for (; seen + batch <= data.count; seen += batch) {
        net.setup();
        data.write(net, seen, batch);
        net.forward();
        const HostTensor scores = to_host(net.queue(), net.tensor("fc2"));
        const auto* score = reinterpret_cast<const float*>(scores.data.data());
        for (std::size_t i = 0; i < batch; ++i)
            right +=
                std::max_element(score + i * 10, score + i * 10 + 10) - (score + i * 10) == data.labels.data[seen + i];
    }
    net.mode(NetMode::train);
    net.setup();
    return static_cast<double>(right) / static_cast<double>(seen);
}

int run(std::map<std::string, std::string> options)
{
    const std::size_t batch = std::stoul(options["--batch"]), epochs = std::stoul(options["--epochs"]);
    const Data train(options["--data"], "train"), test(options["--data"], "t10k");
    require(batch > 0 && batch <= train.count, "a batch has 1 to ", train.count, " images");
    const std::size_t per_epoch = train.count / batch;
    std::size_t steps = std::stoul(options["--steps"]);
    steps = steps ? steps : epochs * per_epoch;

    Context& context = Context::get(options["--device"]);
    Net net = make_net(context, static_cast<std::int64_t>(batch), options["--norm"] == "batch");
    net.mode(NetMode::train);
    net.setup();
    net.initialize_parameters(1);
    if (!options["--weights"].empty())
        net.load_parameters(options["--weights"]);
    std::printf("%s: %zu steps of %zu images, %.1f MiB of intermediates (%.1f without reuse)\n",
                context.device().name.c_str(), steps, batch,
                static_cast<double>(net.memory().intermediates) / (1 << 20),
                static_cast<double>(net.memory().without_reuse) / (1 << 20));

    const double lr = std::stod(options["--lr"]);
    require(options["--solver"] == "adam" || options["--solver"] == "sgd", "the solver is adam or sgd");
    std::unique_ptr<Solver> solver = std::make_unique<AdamSolver>(AdamConfig{.lr = lr});
    if (options["--solver"] == "sgd")
        solver = std::make_unique<SGD>(SGDConfig{.lr = lr, .momentum = 0.9});
    // Losses stay on the device until the end, so that no step waits.
    const Tensor losses = context.empty({static_cast<std::int64_t>(steps)}, DataType::float32, net.queue());
    std::chrono::steady_clock::time_point start;
    const std::size_t warm = std::min<std::size_t>(steps / 2, 20);   // programs are built in the first steps
    for (std::size_t step = 0; step < steps; ++step) {
        if (step == warm) {
            net.queue().finish();
            start = std::chrono::steady_clock::now();
        }
        train.write(net, step % per_epoch * batch, batch);
        solver->step(net);
        copy(net.queue(), net.tensor("loss"),
             losses.slice(0, static_cast<std::int64_t>(step), static_cast<std::int64_t>(step + 1)));
    }
    net.queue().finish();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const HostTensor host = to_host(net.queue(), losses);
    const auto* loss = reinterpret_cast<const float*>(host.data.data());
    std::printf("loss %.4f -> %.4f, %.1f steps/s\n", loss[0], loss[steps - 1],
                static_cast<double>(steps - warm) / seconds);
    if (!options["--losses"].empty()) {
        std::ofstream file(options["--losses"]);
        file.precision(9);
        for (std::size_t i = 0; i < steps; ++i)
            file << loss[i] << '\n';
    }
    if (!options["--save"].empty())
        net.save_parameters(options["--save"]);
    std::printf("accuracy on the test images %.4f\n", accuracy(net, test, batch));
    return loss[steps - 1] < loss[0] ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv)
try {
    std::map<std::string, std::string> options{
        {"--data", "/usr/share/datasets/fashion-mnist"}, {"--device", "0"}, {"--epochs", "1"}, {"--steps", "100"},
        {"--batch", "64"}, {"--lr", "0.001"}, {"--solver", "adam"},
        {"--norm", "batch"}, {"--weights", ""}, {"--save", ""}, {"--losses", ""}};
    for (int i = 1; i + 1 < argc; i += 2) {
        require(options.contains(argv[i]), "unknown option ", argv[i]);
        options[argv[i]] = argv[i + 1];
        if (std::string(argv[i]) == "--epochs")
            options["--steps"].assign(1, '0');   // all of them
    }
    require(argc % 2 == 1, "option ", argv[argc - 1], " needs a value");
    if (!std::ifstream(options["--data"] + "/train-labels-idx1-ubyte") &&
        !std::ifstream(options["--data"] + "/train-labels-idx1-ubyte.gz")) {
        std::printf(
            "There is no Fashion-MNIST in %s. On Debian and Ubuntu the package dataset-fashion-mnist brings it.\n",
            options["--data"].c_str());
        return 77;   // skipped, for ctest
    }
    return run(options);
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
