// Signatures: Amazon's own example. Those of all other requests tests/s3/strict_server.py works out once more.
#include "store/s3/signing.hpp"

#include <gtest/gtest.h>

namespace tiermap {
namespace {

TEST(S3Signing, AmazonsExampleOfAnObjectThatIsRead) {
  const CurlFunctions& curl = load_curl("s3://examplebucket/test.txt");
  S3Settings settings;
  settings.region = "us-east-1";
  settings.access_key = "AKIAIOSFODNN7EXAMPLE";
  settings.secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
  const std::vector<std::string> headers = {"Range: bytes=0-9"};
  const S3Signed request{"GET", "/test.txt", "", "examplebucket.s3.amazonaws.com", headers, {}};
  const std::time_t may_24_2013 = 1'369'353'600;
  EXPECT_EQ(sign_s3(curl, settings, request, may_24_2013).back(),
            "authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

}  // namespace
}  // namespace tiermap
