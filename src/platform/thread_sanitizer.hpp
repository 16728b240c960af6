// A word with ThreadSanitizer, in builds that have it; nothing at all in others.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define TIERMAP_HAS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIERMAP_HAS_THREAD_SANITIZER 1
#endif
#endif

#ifdef TIERMAP_HAS_THREAD_SANITIZER
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}
#endif

namespace tiermap {

/// While one lives, this thread's accesses are no business of ThreadSanitizer's. For reading a page where the program
/// has it mapped: what orders the program's writes before our reads is the kernel's write-protection, which it cannot
/// see.
class AccessesOrderedByKernel {
 public:
  AccessesOrderedByKernel() noexcept {
#ifdef TIERMAP_HAS_THREAD_SANITIZER
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
#endif
  }
  ~AccessesOrderedByKernel() {
#ifdef TIERMAP_HAS_THREAD_SANITIZER
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
  AccessesOrderedByKernel(const AccessesOrderedByKernel&) = delete;
  AccessesOrderedByKernel& operator=(const AccessesOrderedByKernel&) = delete;
};

}  // namespace tiermap
