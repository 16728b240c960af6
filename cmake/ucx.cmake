# Headers of UCX and of OpenSSL's libcrypto, and the names of the libraries that go with them. They are not linked:
# src/cluster/wire/libraries.cpp loads them when the first remote: URL is opened or the first server starts, so that no program
# needs them that does neither.
if(TIERMAP_UCX)
  find_path(TIERMAP_UCX_HEADERS ucp/api/ucp.h)
  find_library(TIERMAP_UCP_SHARED_LIBRARY ucp)
  find_library(TIERMAP_UCS_SHARED_LIBRARY ucs)
  find_path(TIERMAP_CRYPTO_HEADERS openssl/hmac.h)
  find_library(TIERMAP_CRYPTO_SHARED_LIBRARY crypto)
  foreach(name UCP UCS CRYPTO)
    if(TIERMAP_${name}_SHARED_LIBRARY)
      # libucp.so -> libucp.so.0.0.0, which programs know as libucp.so.0.
      file(REAL_PATH ${TIERMAP_${name}_SHARED_LIBRARY} library)
      cmake_path(GET library FILENAME library)
      string(REGEX MATCH "^lib.*\\.so\\.[0-9]+" TIERMAP_${name}_SONAME ${library})
    endif()
  endforeach()
  if(TIERMAP_UCX_HEADERS AND TIERMAP_CRYPTO_HEADERS AND TIERMAP_UCP_SONAME AND TIERMAP_UCS_SONAME AND TIERMAP_CRYPTO_SONAME)
    set(TIERMAP_HAS_UCX TRUE)
  else()
    message(STATUS "No memory servers and no remote: stores: libucx-dev or libssl-dev is not installed")
  endif()
endif()

# Of a library's sources, and of the library that is made of them.
function(tiermap_filter_ucx sources)
  if(NOT TIERMAP_HAS_UCX)
    list(FILTER ${sources} EXCLUDE REGEX "/src/(shared/(common_addresses|job|job_place|saved_vector|shared_[a-z]+)[.]cpp|cluster/(wire|server|remote|job)/)")
    set(${sources} ${${sources}} PARENT_SCOPE)
  endif()
endfunction()
function(tiermap_use_ucx target)
  if(TIERMAP_HAS_UCX)
    target_include_directories(${target} SYSTEM PRIVATE ${TIERMAP_UCX_HEADERS} ${TIERMAP_CRYPTO_HEADERS})
    target_compile_definitions(${target} PRIVATE TIERMAP_UCP_LIBRARY="${TIERMAP_UCP_SONAME}" TIERMAP_UCS_LIBRARY="${TIERMAP_UCS_SONAME}"
      TIERMAP_CRYPTO_LIBRARY="${TIERMAP_CRYPTO_SONAME}")
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  endif()
endfunction()
