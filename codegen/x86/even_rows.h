// Rows that lie evenly apart: one register addresses eight of them, with their stride and three, five and seven times that.
#pragma once
#include <xbyak/xbyak.h>

namespace tenon {

class EvenRows {
public:
  using Reg64 = Xbyak::Reg64;
  static constexpr int most = 16;
  struct Registers {
    Reg64 first, stride, stride3, stride5, stride7;
    Reg64 ninth{}; // of more than eight rows
  };
  EvenRows(Xbyak::CodeGenerator& code, int rows, const Registers& r) : c_(code), rows_(rows), r_(r) {}

  /// `first` and `stride` are set.
  void load() const {
    c_.lea(r_.stride3, c_.ptr[r_.stride + r_.stride * 2]);
    c_.lea(r_.stride5, c_.ptr[r_.stride + r_.stride * 4]);
    c_.lea(r_.stride7, c_.ptr[r_.stride + r_.stride3 * 2]);
    if (rows_ > of_register) c_.lea(r_.ninth, c_.ptr[r_.first + r_.stride * 8]);
  }
  /// Row i, or the one behind the last.
  Xbyak::RegExp at(int i) const {
    bool second = rows_ > of_register && i >= of_register;
    const Reg64& first = second ? r_.ninth : r_.first;
    int behind = second ? i - of_register : i;
    switch (behind) {
    case 0: return first;
    case 3: return first + r_.stride3;
    case 5: return first + r_.stride5;
    case 6: return first + r_.stride3 * 2;
    case 7: return first + r_.stride7;
    default: return first + r_.stride * behind; // 1, 2, 4, 8
    }
  }
  void advance(int bytes) const {
    c_.add(r_.first, bytes);
    if (rows_ > of_register) c_.add(r_.ninth, bytes);
  }

private:
  static constexpr int of_register = 8;
  Xbyak::CodeGenerator& c_;
  int rows_;
  Registers r_;
};

} // namespace tenon
