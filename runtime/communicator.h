// Behind the public handle: a communicator's table, and what ranks may do wrong is caught here.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "tenon/communicator.h"
#include "tenon/tensor.h"

namespace tenon {

struct Communicator::Impl {
  /// `root`: what it is a part of; null: nothing. `library`: what holds its functions.
  Impl(const tenon_communicator& table, std::shared_ptr<Impl> root = {}, std::shared_ptr<void> library = {});
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const tenon_communicator table;
  const std::shared_ptr<Impl> root;
  const std::shared_ptr<void> library; // let go after the table
  std::mutex turn;                     // of the root: held during a call
};

const char* name_of(tenon_collective_kind kind);
const char* name_of(tenon_reduction reduction);
/// By torch's name: "sum", "avg", "product", "min", "max". False for others.
bool find_reduction(std::string_view name, tenon_reduction& out);
/// What is wrong with a reduction of elements of that type; null: nothing.
const char* reduction_refusal(tenon_reduction reduction, DType dtype);
/// inout[i] = reduction of in[i] and inout[i]; an average is a sum here.
void combine(tenon_reduction reduction, DType dtype, const void* in, void* inout, int64_t count);
void divide(DType dtype, void* inout, int64_t count, int ranks);

/// The ends of a group of threads.
std::vector<tenon_communicator> local_communicators(int size, double timeout_seconds);

} // namespace tenon
