# cardea, static, alone in its image: no shell, no user but 65532, nothing that is written to.
#
#   docker build --build-arg VERSION=v0.1.0 -t cardea:v0.1.0 .

# Of the release that go.mod names, or later.
ARG GO_IMAGE=golang:1.26

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
# The Makefile's flags are the ones whose result test/install examines.
RUN GOOS=${TARGETOS} GOARCH=${TARGETARCH} make build VERSION=${VERSION} OUT=/out

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/cardea /cardea
USER 65532:65532
# The backend API; the end-user API; the decision API, and Envoy's; metrics and probes.
EXPOSE 8080 8081 8082 8083 8090
ENTRYPOINT ["/cardea"]
