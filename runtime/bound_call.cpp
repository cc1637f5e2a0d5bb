// PlanRunner::Call: what a run looks up and compares each time, done once.
#include <algorithm>

#include "base/strided.h"
#include "runtime/executable.h"

namespace tenon {

std::vector<TensorView> PlanRunner::Call::keep(std::span<const TensorView> views) {
  std::vector<TensorView> out(views.begin(), views.end());
  for (TensorView& v : out)
    for (auto* list : {&v.sizes, &v.strides}) *list = numbers_.emplace_back(list->begin(), list->end());
  return out;
}

PlanRunner::Call::Call(PlanRunner& runner, std::span<const TensorView> inputs, std::span<const TensorView> outputs)
    : runner_(runner), inputs_(keep(inputs)), outputs_(keep(outputs)) {
  Frame* f = runner_.take_frame();
  Results results{nullptr, outputs_};
  bool fits = runner_.bind(*f, inputs_) && runner_.place_results(*f, inputs_, results);
  if (!fits) status_ = Error(ErrorKind::BadInput, std::exchange(f->message, {}));
  // Numbers are read, and strided memory is copied, in each run.
  bool reads_numbers = std::ranges::any_of(runner_.plan().inputs, [](const InputSpec& s) { return s.is_number || s.is_fixed; });
  if (fits && f->held.empty() && !reads_numbers) frame_ = f;
  else runner_.give_back(f);
}

PlanRunner::Call::~Call() {
  if (frame_) runner_.give_back(frame_);
}

Status PlanRunner::Call::run() noexcept {
  if (!status_.ok()) return status_;
  if (!frame_) return runner_.run_into(inputs_, outputs_);
  Results results{nullptr, outputs_};
  Status status = runner_.run_bound(*frame_, inputs_, results);
  if (!frame_->memory) status_ = status, frame_ = nullptr; // what a failed communication took with it
  else frame_->held.clear();                               // memory of sizes that depended on data
  return status;
}

} // namespace tenon
