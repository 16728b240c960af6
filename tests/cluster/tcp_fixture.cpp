// Every test of this program talks over TCP: shared memory, which UCX would rather use on one machine, is not what lies
// between nodes. Set before any thread is started, and UCX loaded.
#include <cstdlib>

namespace {
const int tcp_only = ::setenv("UCX_TLS", "tcp,self", 1);
}
