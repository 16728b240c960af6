#include "store/s3/settings.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "config/size.hpp"
#include "platform/control_characters.hpp"
#include "store/file_descriptor.hpp"
#include "store/file_transfer.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_profile_bytes = 1 << 20;

[[noreturn]] void refuse_settings(const S3Place& place, int error_number, const std::string& why) {
  throw StoreError(error_number, "store '" + place.url + "': " + why);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The first that is not empty.
std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) {
      return value;
    }
  }
  return "";
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// A file of Amazon's tools.
struct ProfileFile {
  ProfileFile(const char* name_variable, const char* name) : path(variable(name_variable)), named_by(name_variable) {
    if (path.empty()) {
      path = variable("HOME") + "/.aws/" + name;
      named_by = "";
    }
  }
  std::string path;
  std::string named_by;  ///< The variable that does.
};

/// Of what is there, and what keys do not come through only once, as through a FIFO.
bool is_profile_file(const FileDescriptor& file) {
  struct stat status = {};
  return ::fstat(file.get(), &status) == 0 && (S_ISREG(status.st_mode) || S_ISCHR(status.st_mode));  // /dev/null is.
}

S3Profiles profiles_in(const FileDescriptor& file) {
  std::string text(most_profile_bytes, '\0');
  const std::int64_t bytes = read_fully(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)));
  return parse_s3_profiles(text);
}

FileDescriptor open_profile_file(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

/// Nothing of what is not there, or not for us. A FIFO is no such file: each store reads it, and would wait.
S3Profiles read_profiles(const S3Place& place, const ProfileFile& named) {
  const FileDescriptor file = open_profile_file(named.path);
  if (!file.valid()) {
    return {};
  }
  if (!is_profile_file(file)) {
    refuse_settings(place, EINVAL,
                    (named.named_by.empty() ? "" : named.named_by + " ") + quote_value(named.path) +
                        " is no file: " + (named.named_by.empty() ? "remove it, or name" : "name") +
                        " one that holds profiles" + (named.named_by.empty() ? "" : ", or unset the variable"));
  }
  return profiles_in(file);
}

/// What the two files say of one profile.
struct Profile {
  ProfileFile credentials_file{"AWS_SHARED_CREDENTIALS_FILE", "credentials"};
  ProfileFile config_file{"AWS_CONFIG_FILE", "config"};
  std::string name;
  bool found = false;
  std::map<std::string, std::string> credentials;
  std::map<std::string, std::string> config;

  std::string value(const std::string& key) const {
    for (const auto* values : {&credentials, &config}) {
      if (const auto place = values->find(key); place != values->end() && !place->second.empty()) {
        return place->second;
      }
    }
    return "";
  }
};

void take_from(const S3Profiles& credentials, const S3Profiles& config, Profile& profile) {
  if (const auto found = credentials.find(profile.name); found != credentials.end()) {
    profile.credentials = found->second;
    profile.found = true;
  }
  for (const std::string& section : {"profile " + profile.name, profile.name}) {
    if (const auto found = config.find(section); found != config.end() && profile.config.empty()) {
      profile.config = found->second;
      profile.found = true;
    }
  }
}

Profile find_profile(const S3Place& place) {
  Profile profile;
  const std::string named = first_of({place.options.profile, variable("AWS_PROFILE"), variable("AWS_DEFAULT_PROFILE")});
  profile.name = named.empty() ? "default" : named;
  take_from(read_profiles(place, profile.credentials_file), read_profiles(place, profile.config_file), profile);
  if (!named.empty() && !profile.found) {
    refuse_settings(place, EINVAL,
                    "profile '" + named + "' is neither in " + profile.credentials_file.path + " nor in " +
                        profile.config_file.path + ": write it there, or choose another one");
  }
  return profile;
}

/// A part of the keys, and what it is called where it comes from.
struct NamedKey {
  std::string name;
  std::string value;
};

/// The two keys that requests are signed with, and the token that may go with them.
struct FoundKeys {
  NamedKey access;
  NamedKey secret;
  NamedKey token;
  std::string origin;
  bool of_profile = false;

  bool both() const { return !access.value.empty() && !secret.value.empty(); }
  bool neither() const { return access.value.empty() && secret.value.empty(); }
};

FoundKeys keys_of_environment() {
  const auto named = [](const char* name) { return NamedKey{name, variable(name)}; };
  return {named("AWS_ACCESS_KEY_ID"), named("AWS_SECRET_ACCESS_KEY"), named("AWS_SESSION_TOKEN"), "AWS_ACCESS_KEY_ID",
          false};
}

FoundKeys keys_of_profile(const Profile& profile) {
  const std::string origin = "profile " + profile.name;
  const auto named = [&](const std::string& name) { return NamedKey{name + " of " + origin, profile.value(name)}; };
  return {named("aws_access_key_id"), named("aws_secret_access_key"), named("aws_session_token"), origin, true};
}

/// Half of a pair that signs nothing, and of which somebody thinks that it does.
[[noreturn]] void refuse_half(const S3Place& place, const FoundKeys& keys) {
  const bool no_secret = keys.secret.value.empty();
  const NamedKey& there = no_secret ? keys.access : keys.secret;
  const NamedKey& missing = no_secret ? keys.secret : keys.access;
  refuse_settings(place, EACCES,
                  there.name + " is set, and " + missing.name +
                      " is not: set both, or open what anybody may read with anonymous=on");
}

bool has_control_characters(const NamedKey& key) {
  return std::ranges::any_of(key.value, is_control_character);
}

void require_no_control_characters(const S3Place& place, const NamedKey& key) {
  if (has_control_characters(key)) {
    refuse_settings(place, EINVAL,
                    key.name + " has a line break or another control character in it: set it to the key alone");
  }
}

/// The environment's unless the URL names a profile. A secret alone there is no reason not to take a profile's.
FoundKeys choose_keys(const S3Place& place, const Profile& profile) {
  FoundKeys of_environment = place.options.profile.empty() ? keys_of_environment() : FoundKeys();
  if (!of_environment.access.value.empty()) {
    return of_environment;
  }
  FoundKeys of_profile = keys_of_profile(profile);
  return of_profile.neither() && !of_environment.neither() ? of_environment : of_profile;
}

void find_keys(const S3Place& place, const Profile& profile, S3Settings& settings) {
  if (place.options.anonymous) {
    return;
  }
  const FoundKeys keys = choose_keys(place, profile);
  if (keys.neither()) {
    refuse_settings(place, EACCES,
                    "no keys to sign with: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write both " +
                        std::string("into ") + profile.credentials_file.path +
                        ", or open what anybody may read with anonymous=on");
  }
  if (!keys.both()) {
    refuse_half(place, keys);
  }
  for (const NamedKey* key : {&keys.access, &keys.secret, &keys.token}) {
    require_no_control_characters(place, *key);
  }
  settings.access_key = keys.access.value;
  settings.secret_key = keys.secret.value;
  settings.session_token = keys.token.value;
  settings.origin = keys.origin;
  if (keys.of_profile) {
    settings.profile = profile.name;
    settings.credentials_file = profile.credentials_file.path;
    settings.config_file = profile.config_file.path;
  }
}

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port != 0;
}

/// A name, or an address, that of IPv6 in brackets.
bool is_host(std::string_view text) {
  const bool bracketed = text.size() > 2 && text.front() == '[' && text.back() == ']';
  const std::string_view inside = bracketed ? text.substr(1, text.size() - 2) : text;
  return !inside.empty() && std::ranges::all_of(inside, [&](char character) {
    const auto byte = static_cast<unsigned char>(character);
    return byte >= 0x80 || std::isalnum(byte) != 0 ||
           std::string_view(bracketed ? ":.%-_" : ".-_").find(character) != std::string_view::npos;
  });
}

/// Host, and port if there is one.
bool is_authority(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string_view::npos && text.find(']', colon) == std::string_view::npos;
  return is_host(has_port ? text.substr(0, colon) : text) && (!has_port || is_port(text.substr(colon + 1)));
}

/// Scheme and authority: https://host:port.
std::string checked_endpoint(const S3Place& place, std::string endpoint) {
  while (endpoint.ends_with('/')) {
    endpoint.pop_back();
  }
  const std::size_t scheme = endpoint.starts_with("http://") ? 7 : endpoint.starts_with("https://") ? 8 : 0;
  if (scheme == 0 || !is_authority(std::string_view(endpoint).substr(scheme))) {
    refuse_settings(place, EINVAL,
                    "endpoint " + quote_value(endpoint) + " is no server: write http://host:port or https://host");
  }
  return endpoint;
}

}  // namespace

S3Profiles parse_s3_profiles(std::string_view text) {
  S3Profiles profiles;
  std::map<std::string, std::string>* section = nullptr;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    const std::string_view line = trimmed(raw);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') {
      continue;
    }
    if (line.front() == '[') {
      section = line.back() == ']' ? &profiles[std::string(trimmed(line.substr(1, line.size() - 2)))] : nullptr;
      continue;
    }
    const std::size_t equals = line.find('=');
    const bool set_in = raw.front() == ' ' || raw.front() == '\t';
    if (section != nullptr && !set_in && equals != std::string_view::npos) {
      (*section)[std::string(trimmed(line.substr(0, equals)))] = trimmed(line.substr(equals + 1));
    }
  }
  return profiles;
}

bool renew_s3_keys(S3Settings& settings) {
  if (settings.profile.empty()) {
    return false;
  }
  const auto profiles_of = [](const std::string& path) {
    const FileDescriptor file = open_profile_file(path);
    return file.valid() && is_profile_file(file) ? profiles_in(file) : S3Profiles();
  };
  Profile profile;
  profile.name = settings.profile;
  take_from(profiles_of(settings.credentials_file), profiles_of(settings.config_file), profile);
  const FoundKeys keys = keys_of_profile(profile);
  const bool other = keys.access.value != settings.access_key || keys.secret.value != settings.secret_key ||
                     keys.token.value != settings.session_token;
  if (!other || !keys.both() || has_control_characters(keys.access) || has_control_characters(keys.secret) ||
      has_control_characters(keys.token)) {
    return false;
  }
  settings.access_key = keys.access.value;
  settings.secret_key = keys.secret.value;
  settings.session_token = keys.token.value;
  return true;
}

S3Settings find_s3_settings(const S3Place& place) {
  const Profile profile = find_profile(place);
  S3Settings settings;
  find_keys(place, profile, settings);
  settings.region = first_of({place.options.region, variable("AWS_REGION"), variable("AWS_DEFAULT_REGION"),
                              profile.value("region"), "us-east-1"});
  for (const char character : settings.region) {
    // It becomes a part of a name, and of what libcurl takes apart.
    if (std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_").find(character) ==
        std::string_view::npos) {
      refuse_settings(place, EINVAL, "region '" + settings.region + "' is none: write one such as eu-west-1");
    }
  }
  const std::string given = first_of({place.options.endpoint, variable("AWS_ENDPOINT_URL_S3"),
                                      variable("AWS_ENDPOINT_URL"), profile.value("endpoint_url")});
  const std::string endpoint =
      checked_endpoint(place, given.empty() ? "https://s3." + settings.region + ".amazonaws.com" : given);
  // A name with dots fits no certificate, and other servers than Amazon's may not know their own names.
  const bool automatic = given.empty() && place.bucket.find('.') == std::string::npos;
  const bool in_host = place.options.addressing == S3Addressing::virtual_host ||
                       (place.options.addressing == S3Addressing::automatic && automatic);
  const std::string key = encode_s3_key(place.key);
  const std::size_t authority = endpoint.find("://") + 3;
  settings.object_url =
      in_host ? endpoint.substr(0, authority) + place.bucket + "." + endpoint.substr(authority) + "/" + key
              : endpoint + "/" + place.bucket + "/" + key;
  settings.copy_source = "/" + place.bucket + "/" + key;
  return settings;
}

}  // namespace tiermap
