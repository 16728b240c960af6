import ctypes

tiermap = ctypes.CDLL("libtiermap.so")
for function in (tiermap.tiermap_cache_create_with_budget, tiermap.tiermap_map_file, tiermap.tiermap_data):
    function.restype = ctypes.c_void_p
tiermap.tiermap_last_error.restype = ctypes.c_char_p
cache = ctypes.c_void_p(tiermap.tiermap_cache_create_with_budget(ctypes.c_uint64(64 << 20)))
if not cache: raise OSError(tiermap.tiermap_last_error().decode())
region = ctypes.c_void_p(tiermap.tiermap_map_file(cache, b"example.bin", ctypes.c_uint64(256 << 20)))
if not region: raise OSError(tiermap.tiermap_last_error().decode())
words = (ctypes.c_uint64 * (32 << 20)).from_address(tiermap.tiermap_data(region))
for i in range(511, len(words), 512): words[i] = i
tiermap.tiermap_sync_all(region)
print(len(words), "words in 64 MiB of memory, the last one is", words[-1])
