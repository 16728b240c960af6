#include "gray-scott/slice_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "command_line/interruption.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

using Colour = std::array<double, 3>;
/// From none to most, evenly.
constexpr std::array<Colour, 5> colours{{{8, 12, 48}, {20, 90, 140}, {40, 170, 140}, {240, 200, 80}, {255, 250, 230}}};

Colour colour_of(double share) {
  const double at = share * static_cast<double>(colours.size() - 1);
  const std::size_t below = std::min(static_cast<std::size_t>(at), colours.size() - 2);
  const double above = at - static_cast<double>(below);
  Colour colour{};
  for (std::size_t part = 0; part < colour.size(); ++part) {
    colour[part] = colours[below][part] * (1 - above) + colours[below + 1][part] * above;
  }
  return colour;
}

using ImageFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

[[noreturn]] void refuse_image(const std::string& path) {
  throw StoreError(errno, fmt::format("{} cannot be written ({}): name another file by --image", path,
                                      std::generic_category().message(errno)));
}

ImageFile create_image(const std::string& path) {
  ImageFile file(std::fopen(path.c_str(), "wbx"), &std::fclose);
  if (file == nullptr) {
    refuse_image(path);
  }
  return file;
}

}  // namespace

void check_slice_image(const std::string& path) {
  const ImageFile file = create_image(path);
  const MadePath removed(path);
}

void write_slice_image(const std::string& path, std::span<const double> values, std::uint64_t size) {
  const bool grey = path.ends_with(".pgm");
  const double most = std::max(*std::max_element(values.begin(), values.end()), 1e-12);
  std::string text = fmt::format("{}\n{} {}\n255\n", grey ? "P5" : "P6", size, size);
  for (const double value : values) {
    const double share = std::clamp(value / most, 0.0, 1.0);
    const Colour colour = grey ? Colour{255 * share} : colour_of(share);
    for (std::size_t part = 0; part < (grey ? 1 : colour.size()); ++part) {
      text += static_cast<char>(static_cast<unsigned char>(colour[part] + 0.5));
    }
  }
  const ImageFile file = create_image(path);
  MadePath made(path);
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0) {
    refuse_image(path);
  }
  made.keep();
}

}  // namespace tiermap
