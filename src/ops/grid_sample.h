// The modes of torch's grid_sampler, as its calls give them.
#pragma once

namespace tenon::ops {

enum Interpolation { Bilinear = 0, Nearest = 1, Bicubic = 2 };
enum Padding { Zeros = 0, Border = 1, Reflection = 2 };

} // namespace tenon::ops
