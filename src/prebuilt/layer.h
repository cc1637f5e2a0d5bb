// A layer while it is written: a program in the ATen dialect.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/program.h"

namespace tenon {

class Layer {
public:
  /// Vectors of weights are all zeros before training: then adding one adds a number.
  explicit Layer(bool trained = true) : trained_(trained) {}

  V input(std::vector<Expr> sizes, DType dtype = DType::F32);
  V input(std::initializer_list<int64_t> sizes, DType dtype = DType::F32) { return input(exprs({sizes.begin(), sizes.size()}), dtype); }
  /// Its elements differ only where it is a vector.
  V weight(std::vector<int64_t> sizes);
  /// A size that is not known, 1 at least.
  Expr symbol(const std::string& name) { return b().pool().symbol(name, DType::I64, 1, INT64_MAX); }
  V call(std::string_view op, ArgList args, std::vector<Attribute> keywords = {}) {
    return b().call1(op, std::move(args), std::move(keywords));
  }
  V linear(V x, int64_t to, bool bias = true);
  void gives(V v);
  LoadedProgram done() { return std::move(program_); }
  Builder& b() { return builder_; }

private:
  std::vector<Expr> exprs(std::span<const int64_t> sizes);
  V param(InputKind kind, Type type);

  bool trained_;
  LoadedProgram program_;
  Builder builder_{program_.graph, program_.graph.top(), false};
};

using Activation = std::function<V(Layer&, V)>;
Activation call_of(std::string_view op, ArgList more = {});
/// The usual ones, the first of which does nothing.
const std::vector<Activation>& activations();
constexpr size_t activations_of_images = 9; // the first of them

/// The families of layers; each adds its programs.
void add_products(std::vector<LoadedProgram>& out);
void add_norms(std::vector<LoadedProgram>& out);
void add_softmaxes(std::vector<LoadedProgram>& out);
void add_residual_blocks(std::vector<LoadedProgram>& out);
void add_inverted_residuals(std::vector<LoadedProgram>& out);
void add_pooled_stages(std::vector<LoadedProgram>& out);
void add_wide_blocks(std::vector<LoadedProgram>& out);
void add_attention(std::vector<LoadedProgram>& out);
void add_transformers(std::vector<LoadedProgram>& out);

/// Sizes of rows: one or two dims, known or not.
std::vector<std::vector<Expr>> rows_of(Layer& layer);
/// As transformers write it.
V rms_norm(Layer& layer, V x, V weight, double epsilon);

} // namespace tenon
