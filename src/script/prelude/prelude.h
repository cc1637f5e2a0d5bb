// The parts of torch that are themselves scripts: what functions of torch.nn.functional compute, and what modules of torch.nn hold.
// Parameters without an annotation take values of any type there.
#pragma once

namespace tenon::script::prelude {

extern const char functional[];
extern const char losses[];
extern const char modules[];
extern const char padding[];
extern const char layers[];
extern const char loss_modules[];
extern const char recurrent[];
extern const char tensors[];

} // namespace tenon::script::prelude
