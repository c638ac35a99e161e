# The programs of railbind on Debian's RDMA user space: libibverbs with its
# providers, librdmacm, and rdma-core's own test programs. The README says how to
# run it with a host's devices. Debian's package rdma-core is not in it: udev
# rules and the loading of modules are the host's business.

FROM golang:1.26-bookworm AS build
WORKDIR /src
# By itself, so that a change of the sources does not install them again.
COPY ci/packages ci/packages
RUN ci/packages build
# Another module proxy: docker build --build-arg GOPROXY=URL
ARG GOPROXY
COPY . .
RUN make build

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="railbind" \
      org.opencontainers.image.description="RDMA for Go that keeps the device you bound: its programs, rb-*, and rdma-core's test programs" \
      org.opencontainers.image.source="https://github.com/railbind/railbind" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ibverbs-providers \
        ibverbs-utils \
        iproute2 \
        libibverbs1 \
        librdmacm1 \
        rdmacm-utils \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/bin/rb-* /usr/local/bin/
# No ENTRYPOINT: any of the programs is the command, rdma-core's as well as ours.
CMD ["rb-explain", "-h"]
