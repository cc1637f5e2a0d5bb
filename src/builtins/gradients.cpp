// Where the gradients of a backward pass lie that no variable of its graph can stand for: those of tensors that are in lists, tuples and
// dicts, which belong to the tensor whatever holds it; and those of memory that views share and in-place operators write, which lie in
// memory of their own at the same places. The `gradients` of a pass are a dict from addresses, which no two things have that live at once.
#include <cstring>

#include "base/strided.h"
#include "builtins/rows.h"

namespace tenon::builtins {

namespace {

IValue key_of(const void* address) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(address)); }

/// The gradient of a tensor object, which is gone then; None where there is none.
IValue take(DictBox& gradients, IValue& of) {
  if (of.is_none()) return {};
  IValue key = key_of(&of.tensor_box());
  IValue* found = gradients.find(key);
  if (!found) return {};
  IValue gradient = *found;
  gradients.erase(key);
  return gradient;
}

void put(DictBox& gradients, IValue& of, IValue& gradient) { gradients.set(key_of(&of.tensor_box()), gradient); }

/// The gradient of a tensor's memory, as a view of it. Elements that stand at one place are one there: such dims have size 1. Memory is
/// zero until something is added, and as long as has been asked for.
IValue memory(DictBox& gradients, Tensor& of) {
  auto size = static_cast<int64_t>(size_of(of.dtype()));
  int64_t first = (of.data_as<char>() - static_cast<char*>(of.storage().get())) / size, last = first;
  std::vector<int64_t> sizes = of.sizes();
  for (size_t d = 0; d < of.rank(); d++) {
    if (of.strides()[d] == 0 && sizes[d] > 1) sizes[d] = 1;
    int64_t reach = of.strides()[d] * std::max<int64_t>(sizes[d] - 1, 0);
    reach < 0 ? first += reach : last += reach;
  }
  require(first >= 0, "a tensor begins before its memory");
  IValue key = key_of(of.storage().get());
  IValue* found = gradients.find(key);
  if (!found || found->to_tensor().numel() <= last) {
    Tensor longer(of.dtype(), {last + 1});
    std::memset(longer.data(), 0, static_cast<size_t>((last + 1) * size));
    if (found) {
      const Tensor& old = found->to_tensor();
      if (old.dtype() != of.dtype()) raise("", "the gradient of memory that is read as two dtypes");
      std::memcpy(longer.data(), old.data(), static_cast<size_t>(old.numel() * size));
    }
    gradients.set(key, IValue(std::move(longer)));
    found = gradients.find(key);
  }
  const Tensor& all = found->to_tensor();
  if (all.dtype() != of.dtype()) raise("", "the gradient of memory that is read as two dtypes");
  int64_t offset = of.data_as<char>() - static_cast<char*>(of.storage().get());
  return Tensor(of.dtype(), std::move(sizes), of.strides(), all.storage(), all.data_as<char>() + offset / size * size);
}

} // namespace

std::span<const BuiltinRow> gradient_rows() {
  static const Rows rows{
      {"aten::_gradient_take(Any gradients, Tensor? of) -> Tensor?", op<DictBox, IValue>([](auto& g, auto& of) { return take(g, of); })},
      {"aten::_gradient_put(Any gradients, Tensor of, Tensor gradient) -> ()",
       op<DictBox, IValue, IValue>([](auto& g, auto& of, auto& gradient) { put(g, of, gradient); })},
      {"aten::_gradient_memory(Any gradients, Tensor of) -> Tensor", op<DictBox, Tensor>([](auto& g, auto& of) { return memory(g, of); })},
      {"aten::_same_memory(Tensor a, Tensor b) -> bool", op([](Tensor& a, Tensor& b) { return a.storage() == b.storage(); })},
  };
  return rows;
}

} // namespace tenon::builtins
