// The C++ example of docs/how-to/own-store.md.
#pragma once

#include <memory>
#include <vector>

#include "tiermap/store.hpp"

/// Keeps another store's bytes scrambled: each is combined with a key by exclusive or. (No protection, only an example
/// of work on the way.)
class ScrambledStore final : public tiermap::Store {
 public:
  ScrambledStore(std::shared_ptr<tiermap::Store> inner, unsigned char key) : inner_(std::move(inner)), key_(key) {}

  std::uint64_t size_bytes() const override { return inner_->size_bytes(); }
  bool writable() const override { return inner_->writable(); }
  bool growable() const override { return inner_->growable(); }
  int flush() override { return inner_->flush(); }
  int resize(std::uint64_t bytes) override { return inner_->resize(bytes); }
  std::string name() const override { return "scrambled " + inner_->name(); }

  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::int64_t got = inner_->read(buffer, bytes, offset);
    auto* const data = static_cast<unsigned char*>(buffer);
    for (std::int64_t index = 0; index < got; ++index) {
      data[index] ^= key_;
    }
    return got;
  }

  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    // The engine's page must stay as it is: the program may be reading it.
    const auto* const data = static_cast<const unsigned char*>(buffer);
    std::vector<unsigned char> scrambled(data, data + bytes);
    for (unsigned char& byte : scrambled) {
      byte ^= key_;
    }
    return inner_->write(scrambled.data(), bytes, offset);
  }

 private:
  const std::shared_ptr<tiermap::Store> inner_;
  const unsigned char key_;
};
