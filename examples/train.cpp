// Trains two small networks by gradient descent: a program in TorchScript's language gives the loss, Script::gradient the program that
// gives gradients too, and a third one takes the step. Without arguments it prints losses; with a file of losses, as train_losses.py writes
// it, it fails where its own are others.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <tenon/tenon.h>

namespace {

constexpr int steps = 200;

constexpr const char* source = R"(
import torch
import torch.nn.functional as F

def layers(x: torch.Tensor, y: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> torch.Tensor:
    h = torch.tanh(F.linear(x, w1, b1))
    return F.cross_entropy(F.linear(h, w2, b2), y)

def convolutions(x: torch.Tensor, y: torch.Tensor, k1: torch.Tensor, b1: torch.Tensor, k2: torch.Tensor, b2: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    h = F.max_pool2d(torch.relu(F.conv2d(x, k1, b1, padding=1)), 2)
    h = F.max_pool2d(torch.relu(F.conv2d(h, k2, b2, padding=1)), 2)
    return F.cross_entropy(F.linear(h.flatten(1), w, b), y)

def descend(weights: List[torch.Tensor], gradients: List[torch.Tensor], rate: float):
    for w, g in zip(weights, gradients):
        w.sub_(g * rate)
)";

// Numbers that look random, the same everywhere: elements number `from`, from + 1 ... of a sequence between -scale and scale.
tenon::Tensor numbers(uint32_t from, std::vector<int64_t> sizes, float scale) {
  tenon::Tensor t(tenon::DType::F32, std::move(sizes));
  for (int64_t i = 0; i < t.numel(); i++) {
    uint32_t h = (from + static_cast<uint32_t>(i)) * 2654435761u;
    h = (h ^ (h >> 15)) * 2246822519u;
    h ^= h >> 13;
    t.data_as<float>()[i] = (static_cast<float>(h >> 8) / 8388608.0f - 1.0f) * scale;
  }
  return t;
}

// Classes by the signs of the first elements.
tenon::Tensor classes(const tenon::Tensor& x, int64_t count) {
  int64_t n = x.sizes()[0], each = x.numel() / n;
  tenon::Tensor y(tenon::DType::I64, {n});
  for (int64_t i = 0; i < n; i++) {
    const float* row = x.data_as<float>() + i * each;
    y.data_as<int64_t>()[i] = ((row[0] > 0 ? 1 : 0) + (row[1] > 0 ? 2 : 0)) % count;
  }
  return y;
}

struct Network {
  const char* name;
  std::vector<std::string> weight_names;
  tenon::Tensor x;
  std::vector<tenon::Tensor> weights;
  double rate;
};

std::vector<double> train(Network& net, double& us_per_step) {
  tenon::Script loss = tenon::Script::compile(source, net.name, "train.py").value();
  tenon::Script both = loss.gradient(net.weight_names).value();
  tenon::Script descend = tenon::Script::compile(source, "descend", "train.py").value();
  std::vector<tenon::IValue> arguments{net.x, classes(net.x, 4)}, weights(net.weights.begin(), net.weights.end());
  arguments.insert(arguments.end(), weights.begin(), weights.end());
  std::vector<double> losses;
  auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; step++) {
    if (step == steps / 2) start = std::chrono::steady_clock::now();
    std::vector<tenon::IValue> out = both.run(arguments).value();
    losses.push_back(*out[0].to_tensor().data_as<float>());
    std::vector<tenon::IValue> gradients(out.begin() + 1, out.end());
    descend(tenon::IValue::list(weights), tenon::IValue::list(gradients), net.rate); // writes to the weights
  }
  us_per_step = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / (steps - steps / 2);
  return losses;
}

std::vector<Network> networks() {
  return {{"layers",
           {"w1", "b1", "w2", "b2"},
           numbers(0, {64, 20}, 1),
           {numbers(5000, {32, 20}, 0.3f), numbers(6000, {32}, 0.1f), numbers(7000, {4, 32}, 0.3f), numbers(8000, {4}, 0.1f)},
           0.5},
          {"convolutions",
           {"k1", "b1", "k2", "b2", "w", "b"},
           numbers(10000, {16, 1, 12, 12}, 1),
           {numbers(20000, {8, 1, 3, 3}, 0.4f), numbers(21000, {8}, 0.1f), numbers(22000, {12, 8, 3, 3}, 0.2f), numbers(24000, {12}, 0.1f),
            numbers(25000, {4, 108}, 0.2f), numbers(26000, {4}, 0.1f)},
           0.1}};
}

} // namespace

int main(int argc, char** argv) {
  std::ifstream expected(argc > 1 ? argv[1] : "");
  bool differs = false;
  for (Network& net : networks()) {
    double us = 0;
    std::vector<double> losses = train(net, us);
    std::printf("%s: loss %.6f, after %d steps %.6f; %.1f us a step\n", net.name, losses.front(), steps, losses.back(), us);
    for (double loss : losses) {
      double want = 0;
      if (argc > 1 && (!(expected >> want) || std::abs(loss - want) > 1e-4)) differs = true;
    }
  }
  if (differs) std::puts("the losses differ from those expected");
  return differs;
}
