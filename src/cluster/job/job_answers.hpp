// What Jobs answers when it no longer holds its lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/job/jobs.hpp"

namespace tiermap {

class Jobs::Answers {
 public:
  Answers() = default;
  ~Answers() {
    for (const std::function<void()>& one : all_) {
      one();
    }
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  void reply(WireRequest request, std::int32_t status = 0, const WireWords& words = {}) {
    later(std::move(request), [status, words](WireRequest& one) { one.reply(status, words); });
  }
  void refuse(WireRequest request, std::int32_t status, std::string text) {
    later(std::move(request), [status, text = std::move(text)](WireRequest& one) { one.refuse(status, text); });
  }
  /// With a body that several get.
  void reply(WireRequest request, const WireWords& words, std::shared_ptr<const std::vector<std::byte>> body) {
    later(std::move(request), [words, body = std::move(body)](WireRequest& one) {
      WireMessage answer = WireMessage::answer(0, words, body->size());
      std::ranges::copy(*body, answer.body().begin());
      one.reply(std::move(answer));
    });
  }
  void then(std::function<void()> done) { all_.push_back(std::move(done)); }

 private:
  template <typename Answer>
  void later(WireRequest request, Answer answer) {
    all_.push_back([shared = std::make_shared<WireRequest>(std::move(request)), answer] { answer(*shared); });
  }

  std::vector<std::function<void()>> all_;
};

inline std::string rank_text(std::uint32_t rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace tiermap
