// Where requests go and how they are signed: what the URL leaves open, from the environment and from the files that
// Amazon's own tools read.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "store/s3/place.hpp"

namespace tiermap {

struct S3Settings {
  std::string object_url;   ///< https://bucket.s3.us-east-1.amazonaws.com/key, encoded.
  std::string copy_source;  ///< /bucket/key, encoded.
  std::string region;
  std::string access_key;  ///< Empty: nothing is signed.
  std::string secret_key;
  std::string session_token;  ///< Of temporary keys.
  std::string origin;         ///< Of the keys, for messages.
  /// Where keys of a profile were found, and newer ones would be. Empty where they are the environment's.
  std::string profile;
  std::string credentials_file;
  std::string config_file;
};

/// Throws StoreError: no keys to be found, a profile that is nowhere, an endpoint that is none.
S3Settings find_s3_settings(const S3Place& place);

/// Takes the keys that the profile has now; false where they are the same, or there are none.
bool renew_s3_keys(S3Settings& settings);

/// What a file such as ~/.aws/config says: sections, and in each values by name. Of what is no section and no
/// `name = value` nothing is kept, nor of the lines that are set in, which say more about the one before.
using S3Profiles = std::map<std::string, std::map<std::string, std::string>>;
S3Profiles parse_s3_profiles(std::string_view text);

}  // namespace tiermap
