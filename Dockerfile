# An image with only the static binary cardea: no shell, user 65532, read-only.
#
#   docker build --build-arg VERSION=v0.1.0 -t cardea:v0.1.0 .

# The Go release of go.mod, or later.
ARG GO_IMAGE=golang:1.26

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
# The same flags as in the Makefile, whose result test/install checks.
RUN GOOS=${TARGETOS} GOARCH=${TARGETARCH} make build VERSION=${VERSION} OUT=/out

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/cardea /cardea
USER 65532:65532
# Backend API; end-user API; decision API; Envoy's gRPC; metrics and probes.
EXPOSE 8080 8081 8082 8083 8090
ENTRYPOINT ["/cardea"]
