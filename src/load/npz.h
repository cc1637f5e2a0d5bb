// NumPy's .npy and .npz files, for the inputs and outputs of programs: read in place where aligned, and written so that
// numpy.load reads them and this reader maps them.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "load/archive.h"

namespace tenon {

/// One array of a file. `dtype` is numpy's own text ("<f4"). NumPy has no bfloat16: "<u2" is taken as the bits of BF16
/// where the reader was told so.
struct NpyArray {
  std::string name; ///< without ".npy"
  std::string dtype;
  Tensor tensor;
};

/// What to do with "<u2": an Unsupported error, or a BF16 tensor of the same bits.
enum class NpyU2 { Refuse, AsBF16 };

/// Reads one .npy (header versions 1 to 3, C or Fortran order, little endian). The tensor shares `bytes`, kept alive by
/// `owner` (by the caller, where null), or is a copy where they are misaligned. `what` names the file in messages.
NpyArray read_npy(Bytes bytes, std::shared_ptr<void> owner, const std::string& what, NpyU2 u2 = NpyU2::Refuse);
/// Reads all arrays of an .npz, in the archive's order, compressed or not; checksums are verified.
std::vector<NpyArray> read_npz(const Archive& archive, NpyU2 u2 = NpyU2::Refuse);
/// The same for a path to an .npz.
std::vector<NpyArray> read_npz(const std::string& path, NpyU2 u2 = NpyU2::Refuse);

/// Writes an uncompressed .npz with data at multiples of 64 bytes; strided tensors are made contiguous, BF16 is written
/// as "<u2". The names must differ.
void write_npz(const std::string& path, std::span<const std::pair<std::string, Tensor>> arrays);
/// The same into memory.
std::vector<std::byte> write_npz(std::span<const std::pair<std::string, Tensor>> arrays);

} // namespace tenon
