// Loads a package of AOTInductor and prints the sum of what it computes for a row of ones.
//
//     load_package FILE.pt2 ROWS COLUMNS
#include <cstdlib>
#include <iostream>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <ATen/ATen.h>

int main(int, char **arguments) {
  c10::InferenceMode mode;
  torch::inductor::AOTIModelPackageLoader loader(arguments[1]);
  auto inputs = std::vector<at::Tensor>{
      at::ones({std::atoi(arguments[2]), std::atoi(arguments[3])})};
  std::cout << loader.run(inputs)[0].sum().item<double>() << std::endl;
}
