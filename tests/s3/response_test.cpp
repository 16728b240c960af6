// What servers answer, and what is made of it; and how an object is cut into parts.
#include "store/s3/response.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "store/s3/parts.hpp"

namespace tiermap {
namespace {

TEST(S3Response, HeadersAreTakenWhateverTheirCase) {
  S3Response response;
  for (const char* line : {"HTTP/1.1 100 Continue\r\n", "etag: \"old\"\r\n", "\r\n", "HTTP/1.1 206 Partial Content\r\n",
                           "ETag:  \"abc\" \r\n", "CONTENT-RANGE: bytes 0-9/100\r\n", "no header\r\n",
                           "x-amz-meta-Owner: me\r\n", "X-Amz-Meta-Tiermap-Commit: 17\r\n", "Content-Type: a/b\r\n"}) {
    note_s3_header(line, response);
  }
  EXPECT_EQ(response.status, 206);
  EXPECT_EQ(response.etag, "\"abc\"");
  EXPECT_EQ(response.commit, "17");
  EXPECT_EQ(response.kept_headers, (std::vector<std::string>{"x-amz-meta-owner: me", "content-type: a/b"}));
  const auto range = parse_s3_range(response.content_range);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->last, 9U);
  EXPECT_EQ(range->total, 100U);
}

TEST(S3Response, RangesThatMakeNoSenseAreNone) {
  for (const char* text : {"", "bytes", "bytes 0-9", "bytes 9-0/100", "bytes 0-100/100", "bytes 0-9/100 ",
                           "bytes */100", "bytes -1-9/100", "bytes 0-99999999999999999999/100", "lines 0-9/100"}) {
    EXPECT_FALSE(parse_s3_range(text)) << text;
  }
}

TEST(S3Response, ElementsAreFoundAndDecoded) {
  EXPECT_EQ(s3_element("<a><ETag>&quot;x&amp;amp;&quot;</ETag></a>", "ETag"), "\"x&amp;\"");
  EXPECT_EQ(s3_element("<a><b> 1 </b><b>2</b></a>", "b"), "1");
  EXPECT_EQ(s3_element("<a><b>1", "b"), "");
  EXPECT_EQ(s3_element("", "b"), "");
}

S3Failure explained(long status, const std::string& body, const std::string& region = "") {
  S3Response response;
  response.status = status;
  response.body = body;
  response.region = region;
  return explain_s3(response);
}

TEST(S3Response, FailuresNameTheReasonAndTheRemedy) {
  EXPECT_EQ(explained(200, "").error_number, 0);
  EXPECT_EQ(explained(206, "<Code>x").error_number, 0);
  S3Failure failure = explained(403, "<Error><Code>SignatureDoesNotMatch</Code><Message>a\nb</Message></Error>");
  EXPECT_EQ(failure.error_number, EACCES);
  EXPECT_EQ(failure.text(), "SignatureDoesNotMatch (a?b): check the secret key and the region");
  EXPECT_FALSE(failure.passing);
  failure = explained(301, "<Error><Code>PermanentRedirect</Code></Error>", "eu-west-1");
  EXPECT_EQ(failure.text(), "PermanentRedirect: the bucket is in another region: write region=eu-west-1");
  EXPECT_NE(explained(400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>r-1</Region></Error>")
                .text()
                .find("write region=r-1"),
            std::string::npos);
  EXPECT_TRUE(explained(503, "<Error><Code>SlowDown</Code></Error>").passing);
  EXPECT_TRUE(explained(400, "<Error><Code>RequestTimeout</Code></Error>").passing);
  EXPECT_TRUE(explained(429, "").passing);
  EXPECT_FALSE(explained(501, "").passing);
  EXPECT_TRUE(explained(409, "").conflict);
  EXPECT_TRUE(explained(200, "<Error><Code>InternalError</Code></Error>").passing);
  EXPECT_EQ(explained(418, std::string(1000, '\n')).text(), "status 418: check endpoint, region and the server");
}

std::string drawn(const std::vector<S3Client::Part>& parts) {
  std::string text;
  std::uint64_t end = 0;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    EXPECT_EQ(parts[index].offset, end);
    EXPECT_EQ(parts[index].number, index + 1);
    end += parts[index].bytes;
    text += (text.empty() ? "" : " ") + std::to_string(parts[index].bytes >> 20) + (parts[index].copied ? "c" : "u");
  }
  return text;
}

TEST(S3Parts, WhatIsUnchangedIsCopiedInLargePieces) {
  const std::uint64_t mib = 1 << 20;
  S3PartsWanted wanted{40 * mib, 8 * mib, 40 * mib, [](std::uint64_t, std::uint64_t) { return true; }};
  EXPECT_EQ(drawn(plan_s3_parts(wanted)), "40c");
  wanted.unchanged = [&](std::uint64_t first, std::uint64_t bytes) {
    return first > 20 * mib || first + bytes <= 20 * mib;
  };
  EXPECT_EQ(drawn(plan_s3_parts(wanted)), "16c 8u 16c");
  wanted.bytes = 41 * mib;  // Its end is in no object yet.
  EXPECT_EQ(drawn(plan_s3_parts(wanted)), "16c 8u 16c 1u");
  wanted.bytes = 36 * mib;
  EXPECT_EQ(drawn(plan_s3_parts(wanted)), "16c 8u 12c");
  wanted.old_bytes = 0;
  EXPECT_EQ(drawn(plan_s3_parts(wanted)), "8u 8u 8u 8u 4u");
  wanted.old_bytes = 5 * mib;  // Of so small a one S3 copies no ranges.
  EXPECT_EQ(drawn(plan_s3_parts(wanted)), "8u 8u 8u 8u 4u");
}

TEST(S3Parts, ThereAreNeverMoreThanTenThousand) {
  const std::uint64_t tib = 1ULL << 40;
  S3PartsWanted wanted{5 * tib + 1, 8 << 20, 5 * tib, [](std::uint64_t first, std::uint64_t) { return first == 0; }};
  const auto parts = plan_s3_parts(wanted);
  drawn(parts);
  EXPECT_LE(parts.size(), 10'000U);
  EXPECT_EQ(parts.back().offset + parts.back().bytes, wanted.bytes);
  EXPECT_LE(parts.front().bytes, 5ULL << 30);
}

}  // namespace
}  // namespace tiermap
