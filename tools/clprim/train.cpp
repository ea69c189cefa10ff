// clprim train: image classification.
#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include <clprim/copy.hpp>
#include <clprim/solver.hpp>

#include "command.hpp"
#include "options.hpp"
#include "dataset.hpp"

namespace clprim::command {

namespace {

// Two convolutions and two inner products: enough for digits and clothes.
std::string default_net(const Dataset& data, int batch)
{
    const Json shape{batch, data.channels, data.height, data.width};
    const auto conv = [](const char* name, const char* from, int channels) {
        return Json{{"name", name}, {"type", "Convolution2D"}, {"inputs", {from}}, {"outputs", {name}},
                    {"options", {{"channels_out", channels}, {"kernel", 3}, {"pad", 1}, {"activation", "relu"}}}};
    };
    const auto pool = [](const char* name, const char* from) {
        return Json{{"name", name}, {"type", "Pooling2D"}, {"inputs", {from}}, {"outputs", {name}},
                    {"options", {{"mode", "max"}, {"kernel", 2}, {"stride", 2}}}};
    };
    const Json operators{
        conv("conv1", "data", 32), pool("pool1", "conv1"), conv("conv2", "pool1", 64), pool("pool2", "conv2"),
        {{"name", "fc1"}, {"type", "InnerProduct"}, {"inputs", {"pool2"}}, {"outputs", {"fc1"}},
         {"options", {{"outputs", 128}, {"activation", "relu"}}}},
        {{"name", "scores"}, {"type", "InnerProduct"}, {"inputs", {"fc1"}}, {"outputs", {"scores"}},
         {"options", {{"outputs", data.class_count()}}}},
        {{"name", "loss"}, {"type", "SoftmaxWithLoss"}, {"inputs", {"scores", "label"}}, {"outputs", {"loss"}}}};
    const Json inputs{{{"name", "data"}, {"shape", shape}}, {{"name", "label"}, {"shape", {batch}}, {"dtype", "int"}}};
    return Json{{"inputs", inputs}, {"outputs", {"scores", "loss"}}, {"operators", operators}}.dump();
}

std::string net_text(const TrainOptions& options, const Dataset& data)
{
    if (options.net.empty())
        return default_net(data, options.batch);
    std::ifstream stream(options.net);
    std::ostringstream text;
    text << stream.rdbuf();
    return std::move(text).str();
}

// A net with two inputs, images and labels, and the outputs "loss..." and scores of the classes.
class Classifier {
public:
    Classifier(Context& context, const std::string& json, NetMode mode) : net(context)
    {
        net.load_json(json);
        net.mode(mode);
        net.setup();
        require(net.input_names().size() == 2, "a net to be trained has two inputs, images and labels");
        for (const std::string& name : net.output_names())
            (name.starts_with("loss") ? loss_name : scores_name) = name;
        require(!loss_name.empty() && !scores_name.empty(),
                "a net to be trained has an output whose name begins with loss, and one with scores");
    }

    void load(const Dataset& data, std::span<const std::size_t> chosen)
    {
        const std::string &image_name = net.input_names()[0], &label_name = net.input_names()[1];
        Dims shape = net.spec(image_name).shape;
        const auto count = static_cast<std::int64_t>(chosen.size());
        if (shape[0] != count) {
            shape[0] = count;
            net.reshape({{image_name, shape}, {label_name, Dims{count}}});
        }
        require(shape.product() == count * static_cast<std::int64_t>(data.image_bytes()), "the net takes ",
                to_string(shape), ", the images have ", data.channels, " x ", data.height, " x ", data.width);
        std::vector<float> pixels;
        pixels.reserve(chosen.size() * data.image_bytes());
        std::vector<std::int32_t> labels;
        for (const std::size_t i : chosen) {
            const std::uint8_t* image = data.pixels.data() + i * data.image_bytes();
            for (std::size_t k = 0; k < data.image_bytes(); ++k)
                pixels.push_back((static_cast<float>(image[k]) / 255 - 0.5f) / 0.25f);
            labels.push_back(data.labels[i]);
        }
        Queue& queue = net.queue();
        copy(queue, to_device(queue, host_tensor(shape, pixels)), net.tensor(image_name));
        const Tensor numbers = queue.context().empty({count}, DataType::int32, queue);
        queue.write(*numbers.memory, 0, labels.data(), numbers.nbytes());
        copy(queue, numbers, net.tensor(label_name));
    }

    std::vector<float> read(const std::string& name)
    {
        Queue& queue = net.queue();
        const Tensor result = queue.context().empty(net.tensor(name).shape, DataType::float32, queue);
        copy(queue, net.tensor(name), result);
        std::vector<float> values(static_cast<std::size_t>(result.numel()));
        queue.read(*result.memory, 0, values.data(), result.nbytes());
        return values;
    }

    Net net;
    std::string loss_name, scores_name;
};

double accuracy(Classifier& classifier, const Dataset& data, std::size_t batch)
{
    std::size_t right = 0;
    std::vector<std::size_t> order(data.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t begin = 0; begin < data.size(); begin += batch) {
        const auto chosen = std::span(order).subspan(begin, std::min(batch, data.size() - begin));
        classifier.load(data, chosen);
        classifier.net.forward();
        const std::vector<float> scores = classifier.read(classifier.scores_name);
        const std::size_t width = scores.size() / chosen.size();
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const auto row = scores.begin() + static_cast<std::ptrdiff_t>(i * width);
            const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(width)) - row;
            right += best == data.labels[chosen[i]];
        }
    }
    return data.size() ? static_cast<double>(right) / static_cast<double>(data.size()) : 0;
}

std::unique_ptr<Solver> make_solver(const TrainOptions& options)
{
    if (options.solver == "sgd") {
        SGDConfig config;
        config.lr = options.lr, config.momentum = options.momentum, config.weight_decay = options.weight_decay;
        return std::make_unique<SGD>(config);
    }
    AdamConfig config;
    config.lr = options.lr, config.weight_decay = options.weight_decay, config.decoupled = options.solver == "adamw";
    return std::make_unique<AdamSolver>(config);
}

// Returns the mean loss of an epoch.
double train_epoch(Classifier& classifier, Solver& solver, const Dataset& data, std::span<const std::size_t> order,
                   std::size_t batch)
{
    constexpr std::size_t every = 20;   // reading the loss waits for the device
    double sum = 0;
    std::size_t read = 0;
    Progress progress("training", order.size() / batch);
    for (std::size_t step = 0; (step + 1) * batch <= order.size(); ++step) {
        classifier.load(data, order.subspan(step * batch, batch));
        solver.step(classifier.net);
        std::string note;
        if (step % every == 0) {
            const float loss = classifier.read(classifier.loss_name)[0];
            sum += loss, ++read;
            note = "loss " + std::to_string(loss);
        }
        progress.step(note);
    }
    return read ? sum / static_cast<double>(read) : 0;
}

}  // namespace

void train(const TrainOptions& options)
{
    const Split data = read_data(options.data, options.size);
    const std::string json = net_text(options, data.train);
    Context& context = options.context();
    Classifier trained(context, json, NetMode::train), tested(context, json, NetMode::predict);
    trained.net.initialize_parameters(options.seed);
    if (!options.weights.empty())
        trained.net.load_parameters(options.weights);
    std::vector<std::size_t> order(data.train.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937_64 random(options.seed);
    const auto batch = static_cast<std::size_t>(trained.net.spec(trained.net.input_names()[0]).shape[0]);
    require(order.size() >= batch, data.train.size(), " images do not fill one batch of ", batch);
    const auto solver = make_solver(options);
    Json epochs = Json::array();
    for (int epoch = 1; epoch <= options.epochs; ++epoch) {
        std::ranges::shuffle(order, random);
        const auto begin = std::chrono::steady_clock::now();
        const std::size_t used =
            options.limit ? std::min<std::size_t>(order.size(), batch * static_cast<std::size_t>(options.limit))
                          : order.size();
        const double loss = train_epoch(trained, *solver, data.train, std::span(order).first(used), batch);
        context.finish();
        const double seconds = seconds_since(begin);
        tested.net.load_parameters(trained.net.parameters_to_host());
        const double right = accuracy(tested, data.test, batch);
        const double rate = static_cast<double>(used / batch * batch) / seconds;
        epochs.push_back({{"epoch", epoch}, {"loss", loss}, {"test_accuracy", right}, {"images_per_second", rate}});
        if (!options.json)
            std::printf("epoch %d: loss %.4f, right on the test images %.2f %%, %.0f images/s\n", epoch, loss,
                        100 * right, rate);
        std::fflush(stdout);
    }
    if (!options.save.empty())
        trained.net.save_parameters(options.save);
    if (options.json)
        print({{"device", context.device().name},
               {"train_images", data.train.size()},
               {"test_images", data.test.size()},
               {"classes", data.train.class_count()},
               {"epochs", epochs}});
}

}  // namespace clprim::command
