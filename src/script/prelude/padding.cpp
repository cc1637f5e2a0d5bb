// torch.nn: padding.
#include "script/prelude/prelude.h"

namespace tenon::script::prelude {

const char padding[] = R"py(
class ConstantPad1d(Module):
    def __init__(self, padding, value):
        self.padding = [padding] * 2 if type(padding) == "int" else list(padding)
        self.value = float(value)
    def forward(self, input):
        return F.pad(input, self.padding, 'constant', self.value)

class ZeroPad1d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 2 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'constant')

class ReflectionPad1d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 2 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'reflect')

class ReplicationPad1d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 2 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'replicate')

class CircularPad1d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 2 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'circular')

class ConstantPad2d(Module):
    def __init__(self, padding, value):
        self.padding = [padding] * 4 if type(padding) == "int" else list(padding)
        self.value = float(value)
    def forward(self, input):
        return F.pad(input, self.padding, 'constant', self.value)

class ZeroPad2d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 4 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'constant')

class ReflectionPad2d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 4 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'reflect')

class ReplicationPad2d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 4 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'replicate')

class CircularPad2d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 4 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'circular')

class ConstantPad3d(Module):
    def __init__(self, padding, value):
        self.padding = [padding] * 6 if type(padding) == "int" else list(padding)
        self.value = float(value)
    def forward(self, input):
        return F.pad(input, self.padding, 'constant', self.value)

class ZeroPad3d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 6 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'constant')

class ReflectionPad3d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 6 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'reflect')

class ReplicationPad3d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 6 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'replicate')

class CircularPad3d(Module):
    def __init__(self, padding):
        self.padding = [padding] * 6 if type(padding) == "int" else list(padding)
    def forward(self, input):
        return F.pad(input, self.padding, 'circular')

)py";

} // namespace tenon::script::prelude
