// What register_op and register_kernel keep. An operator has rows of several forms: what programs call, and what is run.
#pragma once
#include <algorithm>
#include <deque>

#include "ops/custom.h"

namespace tenon::ops {

struct Custom;

struct Form : OpDef {
  const Custom* of = nullptr;
  const OpDef* runs = nullptr; // of a form that is composite: the last form, which is called in its place
  bool channels_last = false;  // operands and results of rank 4 and 5 are permuted to the order of channels-last memory
};

struct Custom {
  std::string text; // what is written of it where it must be known again
  std::string schema, results, expression = {};
  tenon_op_function function = nullptr;
  void* data = nullptr;
  std::string keep = {};           // arguments that take no part in promotion: all numbers
  std::string name = {};           // of a kernel
  const OpDef* computes = nullptr; // of a kernel: the operator
  DTypes dtypes = any_type;
  int64_t number = 0;          // what its steps know it by, in a file as well: a hash of the text
  std::deque<Form> forms = {}; // their addresses stay
};

inline const Form& form_of(const Call& c) { return static_cast<const Form&>(c.def); }
inline const Custom& custom_of(const Call& c) { return *form_of(c).of; }
/// The operator or kernel of that number; null where there is none.
const Custom* numbered(int64_t number);
/// Adds it, and `forms` as its rows. Where one of that name is there, it must be the same.
void add_custom(Custom custom, std::vector<Form> forms);
/// All of them, in order; their addresses stay.
std::vector<const Custom*> registered();

/// custom_types.cpp: types of results by the shape rule.
std::vector<Type> infer_custom(const Call& c);
/// custom_step.cpp: the step that calls the function.
LibraryStep step_of_custom(const Call& c);
/// Whether the argument can be handed to a function.
bool can_be_handed_on(const SchemaArg& arg);

/// Sizes of channels-last memory, and of the tensor in it; other ranks as they are.
template <class T> std::vector<T> to_channels_last(std::vector<T> x) {
  if (x.size() == 4 || x.size() == 5) std::rotate(x.begin() + 1, x.begin() + 2, x.end());
  return x;
}
template <class T> std::vector<T> from_channels_last(std::vector<T> x) {
  if (x.size() == 4 || x.size() == 5) std::rotate(x.begin() + 1, x.end() - 1, x.end());
  return x;
}

} // namespace tenon::ops
