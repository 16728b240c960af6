#include <fcntl.h>
#include <umap/umap.h>

#include <cstdint>
#include <cstdio>

int main() {
  const std::size_t bytes = 256 << 20;
  const int file = open("example.bin", O_RDWR | O_CREAT, 0644);
  if (file < 0 || ftruncate(file, bytes) != 0) {
    std::perror("example.bin");
    return 1;
  }
  void* const region = umap(nullptr, bytes, PROT_READ | PROT_WRITE, UMAP_PRIVATE, file, 0);
  close(file);
  if (region == UMAP_FAILED) {
    std::perror("umap");
    return 1;
  }
  auto* const words = static_cast<std::uint64_t*>(region);
  const std::size_t count = bytes / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < count; ++i) words[i] = i;
  if (umap_flush() != 0) {
    std::perror("umap_flush");
    return 1;
  }
  std::printf("%zu words in %llu pages of %llu bytes, the last one is %llu\n", count,
              static_cast<unsigned long long>(umapcfg_get_max_pages_in_buffer()),
              static_cast<unsigned long long>(umapcfg_get_umap_page_size()),
              static_cast<unsigned long long>(words[count - 1]));
  return uunmap(region, bytes) == 0 ? 0 : 1;
}
