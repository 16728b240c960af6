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
void AnnotateHappensBefore(const char* file, int line, const volatile void* order);
void AnnotateHappensAfter(const char* file, int line, const volatile void* order);
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

/// Of memory that a library maps and unmaps by system calls of its own, which ThreadSanitizer does not see: it would
/// take whoever has the addresses next for one who races with whoever had them before. The kernel's lock of the memory
/// map puts them in order. To be said before the memory is unmapped, and after it is mapped.
class AddressesOrderedByKernel {
 public:
  static void will_be_given_back() noexcept {
#ifdef TIERMAP_HAS_THREAD_SANITIZER
    AnnotateHappensBefore(__FILE__, __LINE__, &order);
#endif
  }
  static void have_been_taken() noexcept {
#ifdef TIERMAP_HAS_THREAD_SANITIZER
    AnnotateHappensAfter(__FILE__, __LINE__, &order);
#endif
  }

#ifdef TIERMAP_HAS_THREAD_SANITIZER
 private:
  static constexpr char order = 0;  ///< Only its address counts.
#endif
};

}  // namespace tiermap
