// Products with what follows them, norms, softmaxes.
#include "prebuilt/layer.h"

namespace tenon {

void add_products(std::vector<LoadedProgram>& out) {
  for (const Activation& f : activations()) {
    Layer l;
    constexpr int64_t rows = 96, inner = 64, columns = 160;
    V x = l.input({rows, inner}), other = l.input({rows, columns}), scale = l.weight({columns});
    for (bool bias : {false, true}) {
      auto product = [&] { return l.linear(x, columns, bias); };
      l.gives(f(l, product()));
      l.gives(other + f(l, product()));
      l.gives(f(l, product()) + other);
      l.gives(f(l, product() + other));
      l.gives(f(l, other + product()));
      l.gives(f(l, product()) * other);
      l.gives(f(l, other) * product());
      l.gives(other + f(l, product()) * scale);
    }
    out.push_back(l.done());
  }
}

void add_norms(std::vector<LoadedProgram>& out) {
  constexpr int64_t columns = 192;
  for (double epsilon : {1e-5, 1e-6, 1e-12}) {
    Layer l;
    V weight = l.weight({columns}), bias = l.weight({columns});
    for (std::vector<Expr> sizes : rows_of(l)) {
      sizes.push_back(l.b().integer(columns));
      for (bool layer : {false, true})
        for (bool stays : {false, true}) {
          auto norm = [&](V v) {
            return layer ? l.call("aten::layer_norm", {v, ArgList{columns}, weight, bias, epsilon}) : rms_norm(l, v, weight, epsilon);
          };
          l.gives(norm(l.input(sizes)));
          V sum = l.input(sizes) + l.input(sizes);
          l.gives(norm(sum));
          if (stays) l.gives(sum);
        }
    }
    out.push_back(l.done());
  }
}

void add_softmaxes(std::vector<LoadedProgram>& out) {
  Layer l;
  for (std::vector<Expr> sizes : rows_of(l)) {
    sizes.push_back(l.b().integer(1000));
    for (const char* op : {"aten::softmax.int", "aten::log_softmax.int"}) l.gives(l.call(op, {l.input(sizes), int64_t{-1}}));
  }
  out.push_back(l.done());
}

} // namespace tenon
