// Amazon's signature, version 4. libcurl has one too, but puts headers in a wrong order where one name begins with
// another, as those of a copied part do (7.88), and has written paths in several ways since.
#pragma once

#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/s3/library.hpp"
#include "store/s3/settings.hpp"

namespace tiermap {

/// What is signed of a request: all of it.
struct S3Signed {
  std::string_view method;
  std::string_view path;   ///< Encoded as encode_s3_key() does.
  std::string_view query;  ///< Encoded, its names in order, each with '='.
  std::string_view host;
  std::span<const std::string> headers;  ///< "name: value", of names that differ.
  std::span<const char> body;
};

/// The headers that have to be sent beside those, with their signature.
std::vector<std::string> sign_s3(const CurlFunctions& curl, const S3Settings& settings, const S3Signed& request,
                                 std::time_t now);

}  // namespace tiermap
