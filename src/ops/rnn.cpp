// Recurrent layers. The inputs of all steps are projected by one product; what depends on the step before runs in a
// prim::Scan over time.
#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

/// The weights of one layer in one direction, as columns: x @ w_ih.
struct Cell {
  V w_ih, w_hh, b_ih, b_hh, w_hr; // the last three may be missing
};

V activate(V x, const char* name) { return x.builder().call1(fmt::format("aten::{}.default", name), {x}); }
V project(Builder& b, V x, V w, V bias) { return b.call1("aten::linear.default", {x, w, bias ? Arg(bias) : Arg()}); }
V chunk(Builder& b, V x, int64_t k, int64_t of) {
  Expr n = floor_div(x.size(-1), b.integer(of));
  return b.slice(x, -1, n * static_cast<double>(k), n);
}

// One step of each kind: what it makes of the projected input, and of the state. LSTM has the state (h, c).
using Step = std::vector<V> (*)(Builder&, const Cell&, V input, const std::vector<V>& state);

std::vector<V> lstm_gates(Builder& b, V gates, V c) {
  V i = activate(chunk(b, gates, 0, 4), "sigmoid"), f = activate(chunk(b, gates, 1, 4), "sigmoid");
  V g = activate(chunk(b, gates, 2, 4), "tanh"), o = activate(chunk(b, gates, 3, 4), "sigmoid");
  V next = f * c + i * g;
  return {o * activate(next, "tanh"), next};
}

std::vector<V> lstm_step(Builder& b, const Cell& w, V input, const std::vector<V>& state) {
  auto out = lstm_gates(b, input + project(b, state[0], w.w_hh, w.b_hh), state[1]);
  if (w.w_hr) out[0] = project(b, out[0], w.w_hr, {});
  return out;
}

std::vector<V> gru_step(Builder& b, const Cell& w, V input, const std::vector<V>& state) {
  V h = state[0], own = project(b, h, w.w_hh, w.b_hh);
  V r = activate(chunk(b, input, 0, 3) + chunk(b, own, 0, 3), "sigmoid"),
    z = activate(chunk(b, input, 1, 3) + chunk(b, own, 1, 3), "sigmoid");
  V n = activate(chunk(b, input, 2, 3) + r * chunk(b, own, 2, 3), "tanh");
  return {(h - n) * z + n};
}

template <Name Activation> std::vector<V> plain_step(Builder& b, const Cell& w, V input, const std::vector<V>& state) {
  return {activate(input + project(b, state[0], w.w_hh, w.b_hh), Activation.text)};
}

// x [T, B, I] through one layer in one direction: the outputs [T, B, H] and the last state.
std::pair<V, std::vector<V>> run(Builder& b, Cell w, V x, std::vector<V> state, Step step, bool reverse) {
  if (step != gru_step && w.b_hh) { // a GRU's hidden bias is inside a gate
    w.b_ih = w.b_ih + w.b_hh;
    w.b_hh = {};
  }
  V projected = project(b, x, w.w_ih, w.b_ih);
  size_t carried = state.size();
  auto out = b.scan(std::move(state), {projected}, reverse, [&](const std::vector<V>& now, const std::vector<V>& slices) {
    std::vector<V> next = step(b, w, slices[0], now);
    next.push_back(next[0]);
    return next;
  });
  V ys = out[carried];
  out.resize(carried);
  return {ys, {out.begin(), out.end()}};
}

Cell cell_of(const Call& c, Builder& b, size_t which, size_t cells) {
  std::vector<ValueId> params = c.values("params");
  size_t each = params.size() / cells, own = which * each;
  bool biases = c.flag("has_biases");
  if (params.size() != each * cells || each < (biases ? 4u : 2u)) c.fail("wrong number of weights");
  auto at = [&](size_t i) { return b.wrap(params[own + i]); };
  Cell w{at(0), at(1), {}, {}, {}};
  if (biases) w.b_ih = at(2), w.b_hh = at(3);
  if (each == (biases ? 5u : 3u)) w.w_hr = at(each - 1);
  return w;
}

void check_dtypes(const Call& c, V x, const std::vector<V>& states) {
  for (V s : states)
    if (s.dtype() != x.dtype()) c.fail(fmt::format("the input is {}, a state {}", name_of(x.dtype()), name_of(s.dtype())));
}

// All layers; `first` holds the initial states [layers * directions, B, H], one per carried value.
Values layers(Builder& b, const Call& c, const std::vector<V>& first, Step step) {
  if (c.flag("train") && c.number("dropout") != 0) unsupported("{}: dropout", c.def.signature.name);
  size_t directions = c.flag("bidirectional") ? 2 : 1, count = static_cast<size_t>(c.integer("num_layers"));
  V x = b.input(c, "input");
  if (x.rank() != 3) c.fail("the input must be of rank 3");
  check_dtypes(c, x, first);
  if (c.flag("batch_first")) x = b.transpose(x, 0, 1);
  std::vector<ArgList> last(first.size());
  for (size_t layer = 0; layer < count; layer++) {
    ArgList outputs;
    for (size_t direction = 0; direction < directions; direction++) {
      size_t which = layer * directions + direction;
      std::vector<V> state;
      for (V s : first) state.push_back(b.select(s, 0, b.integer(static_cast<int64_t>(which))));
      auto [ys, end] = run(b, cell_of(c, b, which, count * directions), x, state, step, direction == 1);
      outputs.push_back(ys);
      for (size_t i = 0; i < end.size(); i++) last[i].push_back(b.unsqueeze(end[i], 0));
    }
    x = directions == 1 ? b.wrap(outputs[0].get<ValueId>()) : b.call1("aten::cat.default", {outputs, 2});
  }
  Values out{c.flag("batch_first") ? b.transpose(x, 0, 1) : x};
  for (auto& l : last) out.push_back(l.size() == 1 ? b.wrap(l[0].get<ValueId>()) : b.call1("aten::cat.default", {l, 0}));
  return out;
}

Values lstm(Builder& b, const Call& c) {
  std::vector<ValueId> hx = c.values("hx");
  if (hx.size() != 2) c.fail("hx must hold two tensors");
  return layers(b, c, {b.wrap(hx[0]), b.wrap(hx[1])}, lstm_step);
}

template <auto S> Values one_state(Builder& b, const Call& c) { return layers(b, c, {b.input(c, "hx")}, S); }

// A single step: the cells of torch.nn.
template <auto S> Values cell(Builder& b, const Call& c) {
  Cell w{b.input(c, "w_ih"), b.input(c, "w_hh"), {}, {}, {}};
  if (c.has("b_ih")) w.b_ih = b.input(c, "b_ih");
  if (c.has("b_hh")) w.b_hh = b.input(c, "b_hh");
  std::vector<V> state;
  for (ValueId v : c.values("hx")) state.push_back(b.wrap(v));
  if (state.size() != (S == lstm_step ? 2 : 1)) c.fail("the wrong number of states");
  check_dtypes(c, b.input(c, "input"), state);
  std::vector<V> out = S(b, w, project(b, b.input(c, "input"), w.w_ih, w.b_ih), state);
  return {out.begin(), out.end()};
}

// What torch's own composite makes of an LSTM: one layer in one direction, [T, B, I]. The notes for its backward are not made.
Values onednn_layer(Builder& b, const Call& c) {
  constexpr int64_t lstm_mode = 2;
  if (c.integer("mode") != lstm_mode || c.flag("train") || !c.integers("batch_sizes").empty())
    unsupported("{}: other than an LSTM's layer of equally long sequences, in inference", c.def.signature.name);
  V x = b.input(c, "input"), h = b.input(c, "hx_"), state = b.input(c, "cx_");
  check_dtypes(c, x, {h, state});
  Cell w{b.input(c, "weight0"), b.input(c, "weight1"), {}, {}, {}};
  if (c.flag("has_biases")) w.b_ih = b.input(c, "weight2"), w.b_hh = b.input(c, "weight3");
  auto as = [&](V v, const std::vector<Expr>& sizes) { return v.rank() == sizes.size() ? v : b.reshape(v, sizes); };
  std::vector<Expr> sizes{x.size(1), w.w_hh.size(1)}; // of a state, which may come with a dim of 1 in front
  auto [ys, end] = run(b, w, x, {as(h, sizes), as(state, sizes)}, lstm_step, c.flag("reverse"));
  return {ys, as(end[0], h.sizes()), as(end[1], state.sizes()), b.full({b.integer(0)}, int64_t{0}, DType::U8)};
}

#define LAYERS "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> "
#define WEIGHTS "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "

const OpRow rnn_ops[] = {
    {.schema = "aten::lstm.input(Tensor input, Tensor[] hx, " LAYERS "(Tensor, Tensor, Tensor)",
     .decompose = lstm,
     .vjp = "result: lstm_of(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)"},
    {.schema = "aten::gru.input(Tensor input, Tensor hx, " LAYERS "(Tensor, Tensor)",
     .decompose = one_state<gru_step>,
     .vjp = "result: gru_of(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)"},
    {.schema = "aten::rnn_tanh.input(Tensor input, Tensor hx, " LAYERS "(Tensor, Tensor)",
     .decompose = one_state<plain_step<"tanh">>,
     .vjp = "result: rnn_tanh_of(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)"},
    {.schema = "aten::rnn_relu.input(Tensor input, Tensor hx, " LAYERS "(Tensor, Tensor)",
     .decompose = one_state<plain_step<"relu">>,
     .vjp = "result: rnn_relu_of(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)"},
    {.schema =
         "aten::mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor hx_, Tensor cx_, "
         "bool reverse, int[] batch_sizes, int mode, int hidden_size, int num_layers, bool has_biases, bool bidirectional, bool "
         "batch_first, bool train) -> (Tensor, Tensor, Tensor, Tensor)",
     .decompose = onednn_layer},
    {.schema = "aten::lstm_cell(Tensor input, Tensor[] hx, " WEIGHTS "(Tensor, Tensor)",
     .decompose = cell<lstm_step>,
     .vjp = "result: lstm_step(torch.linear(input, w_ih, b_ih) + torch.linear(hx[0], w_hh, b_hh), hx[1])"},
    {.schema = "aten::gru_cell(Tensor input, Tensor hx, " WEIGHTS "Tensor",
     .decompose = cell<gru_step>,
     .vjp = "result: gru_step(torch.linear(input, w_ih, b_ih), torch.linear(hx, w_hh, b_hh), hx)"},
    {.schema = "aten::rnn_tanh_cell(Tensor input, Tensor hx, " WEIGHTS "Tensor",
     .decompose = cell<plain_step<"tanh">>,
     .vjp = "result: rnn_tanh_step(torch.linear(input, w_ih, b_ih), torch.linear(hx, w_hh, b_hh), hx)"},
    {.schema = "aten::rnn_relu_cell(Tensor input, Tensor hx, " WEIGHTS "Tensor",
     .decompose = cell<plain_step<"relu">>,
     .vjp = "result: rnn_relu_step(torch.linear(input, w_ih, b_ih), torch.linear(hx, w_hh, b_hh), hx)"},
};

} // namespace

std::span<const OpRow> rnn_rows() { return rnn_ops; }

} // namespace tenon::ops
