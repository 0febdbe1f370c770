# syntax=docker/dockerfile:1

# The image for those who have a container engine and a registry:
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v1.2.3 .
#
# `make image` makes the same image with Go alone, and .ci/image tests that user,
# entrypoint, labels and compiler flags are the same in both. The tags of the two
# images below get security fixes; a build that is to be repeated names digests.

# GO_IMAGE has the compiler.
ARG GO_IMAGE=docker.io/library/golang:1.26
# BASE_IMAGE has CA certificates, a user and no shell.
ARG BASE_IMAGE=gcr.io/distroless/static-debian13:nonroot

# build runs on the builder's own platform and compiles for the others: nothing is emulated.
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=devel
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    GOFLAGS="-trimpath -gcflags=all=-dwarf=false -tags=grpcnotrace" \
    go build -ldflags "-s -w -X main.version=${VERSION}" -o /out/eventquota ./cmd/webhook

FROM ${BASE_IMAGE}
ARG VERSION=devel
LABEL org.opencontainers.image.title="eventquota" \
      org.opencontainers.image.description="Event quotas at the Kubernetes API server" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/eventquota/eventquota" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /out/eventquota /eventquota
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/eventquota"]
