#include <clprim/recurrent.hpp>

#include <array>
#include <vector>

#include <clprim/pointwise.hpp>

#include "core/operands.hpp"

namespace clprim {
namespace {

constexpr const char* lstm_forward = "T i = sigmoid(x0), f = sigmoid(x1), g = tanh(x2), o = sigmoid(x3);"
                                     "y1 = f * x4 + i * g; y0 = o * tanh(y1);"
                                     "y2 = i; y3 = f; y4 = g; y5 = o;";
// x0: c, x1: c', x2..x5: i, f, g, o; y4: the gradient of c. w0, w1: whether those of h' and c' count.
constexpr const char* lstm_backward =
    "T t = tanh(x1), dh = w0 != 0 ? x6 : (T)0, dc = dh * x5 * (1 - t * t) + (w1 != 0 ? x7 : (T)0);"
    "y0 = dc * x4 * (1 - x2) * x2; y1 = dc * x0 * (1 - x3) * x3; y2 = dc * x2 * (1 - x4 * x4);"
    "y3 = dh * t * (1 - x5) * x5; y4 = dc * x3;";
constexpr const char* gru_forward = "T r = sigmoid(x0 + x3), z = sigmoid(x1 + x4), n = tanh(x2 + r * x5);"
                                    "y0 = n + z * (x6 - n); y4 = x6; y5 = x5; y1 = r; y2 = z; y3 = n;";
// x0: the gradient of h', x1..x5: r, z, n', h, n_h.
constexpr const char* gru_backward = "T dn = x0 * (1 - x2) * (1 - x3 * x3), dr = dn * x5 * (1 - x1) * x1;"
                                     "y0 = y3 = dr; y1 = y4 = x0 * (x4 - x3) * (1 - x2) * x2; y2 = dn; y5 = dn * x1;"
                                     "y6 = x0 * x2;";

// [n, count h] as `count` views [n, h], appended.
void append_parts(std::vector<Tensor>& to, const Tensor& t, int count, std::int64_t size)
{
    require(t.shape.size() == 2 && t.size(1) == count * size, "a recurrent cell of ", size, " units: expected [n, ",
            count * size, "], got ", to_string(t.shape));
    for (int k = 0; k < count; ++k)
        to.push_back(t.slice(1, k * size, (k + 1) * size));
}

// The checks of operands that both cells share; states are [n, h].
void check_cell(const char* name, std::initializer_list<detail::Operand> operands, const Tensor& state)
{
    detail::check_operands(name, operands);
    require(state.dim() == 2, name, ": states are [n, h], got ", to_string(state.shape));
}

// y = the sum of what is defined.
void add(Queue& queue, std::initializer_list<Tensor> terms, const Tensor& y)
{
    static constexpr std::array code = {"y0 = x0;", "y0 = x0 + x1;", "y0 = x0 + x1 + x2;", "y0 = x0 + x1 + x2 + x3;"};
    std::vector<Tensor> defined;
    for (const Tensor& t : terms)
        if (t.defined())
            defined.push_back(t);
    pointwise(queue, defined, {&y, 1}, {}, code[defined.size() - 1]);
}

}  // namespace

void lstm_cell(Queue& queue, const Gates& gates, const LstmCell& cell)
{
    using detail::optional;
    check_cell("lstm_cell",
               {{"input", gates.input, optional},
                {"hidden", gates.hidden, optional},
                {"input_bias", gates.input_bias, optional},
                {"hidden_bias", gates.hidden_bias, optional},
                {"cx", cell.cx},
                {"hy", cell.hy},
                {"cy", cell.cy},
                {"activated", cell.activated}},
               cell.cx);
    require(gates.input.defined() || gates.hidden.defined(), "lstm_cell: expected gates of the input or hidden state");
    add(queue, {gates.input, gates.hidden, gates.input_bias, gates.hidden_bias}, cell.activated);
    std::vector<Tensor> inputs, outputs{cell.hy, cell.cy};
    append_parts(inputs, cell.activated, 4, cell.cx.size(1));
    append_parts(outputs, cell.activated, 4, cell.cx.size(1));   // in place
    inputs.push_back(cell.cx);
    pointwise(queue, inputs, outputs, {}, lstm_forward);
}

void lstm_cell_backward(Queue& queue, const LstmCell& cell, const LstmCellGradients& gradients)
{
    require(gradients.hy.defined() || gradients.cy.defined(), "lstm_cell_backward: expected a gradient of hy or cy");
    using detail::optional;
    check_cell("lstm_cell_backward",
               {{"cx", cell.cx},
                {"cy", cell.cy},
                {"activated", cell.activated},
                {"gradient of hy", gradients.hy, optional},
                {"gradient of cy", gradients.cy, optional},
                {"gradient of the gates", gradients.gates},
                {"gradient of cx", gradients.cx}},
               cell.cx);
    const Tensor& any = gradients.hy.defined() ? gradients.hy : gradients.cy;
    std::vector<Tensor> inputs{cell.cx, cell.cy}, outputs;
    append_parts(inputs, cell.activated, 4, cell.cx.size(1));
    inputs.push_back(gradients.hy.defined() ? gradients.hy : any);
    inputs.push_back(gradients.cy.defined() ? gradients.cy : any);
    append_parts(outputs, gradients.gates, 4, cell.cx.size(1));
    outputs.push_back(gradients.cx);
    const std::array<Scalar, 2> counts{Scalar(gradients.hy.defined() ? 1 : 0), Scalar(gradients.cy.defined() ? 1 : 0)};
    const std::array types{DataType::int32, DataType::int32};
    pointwise(queue, inputs, outputs, counts, lstm_backward, types);
}

void gru_cell(Queue& queue, const Gates& gates, const GruCell& cell)
{
    using detail::optional;
    check_cell("gru_cell",
               {{"input", gates.input},
                {"hidden", gates.hidden},
                {"input_bias", gates.input_bias, optional},
                {"hidden_bias", gates.hidden_bias, optional},
                {"hx", cell.hx},
                {"hy", cell.hy},
                {"saved", cell.saved}},
               cell.hx);
    Tensor input = gates.input, hidden = gates.hidden;
    if (gates.input_bias.defined()) {
        input = queue.context().empty(input.shape, input.dtype, queue);
        add(queue, {gates.input, gates.input_bias}, input);
    }
    if (gates.hidden_bias.defined()) {
        hidden = queue.context().empty(hidden.shape, hidden.dtype, queue);
        add(queue, {gates.hidden, gates.hidden_bias}, hidden);
    }
    std::vector<Tensor> inputs, outputs{cell.hy};
    append_parts(inputs, input, 3, cell.hx.size(1));
    append_parts(inputs, hidden, 3, cell.hx.size(1));
    inputs.push_back(cell.hx);
    append_parts(outputs, cell.saved, 5, cell.hx.size(1));
    pointwise(queue, inputs, outputs, {}, gru_forward);
}

void gru_cell_backward(Queue& queue, const Tensor& saved, const GruCellGradients& gradients)
{
    check_cell("gru_cell_backward",
               {{"saved", saved},
                {"gradient of hy", gradients.hy},
                {"gradient of the input's gates", gradients.input},
                {"gradient of the hidden state's gates", gradients.hidden},
                {"gradient of hx", gradients.hx}},
               gradients.hy);
    std::vector<Tensor> inputs{gradients.hy}, outputs;
    append_parts(inputs, saved, 5, gradients.hy.size(1));
    append_parts(outputs, gradients.input, 3, gradients.hy.size(1));
    append_parts(outputs, gradients.hidden, 3, gradients.hy.size(1));
    outputs.push_back(gradients.hx);
    pointwise(queue, inputs, outputs, {}, gru_backward);
}

}  // namespace clprim
