# spool serve in a container. The store is /data: mount a volume of the machine
# there (no network file system). To be reached from outside the container it
# needs credentials: mount a configuration at /etc/spool/serve.json.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /spool ./cmd/spool

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /spool /usr/local/bin/spool
USER 65534
ENV SPOOL_DIR=/data
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/spool"]
CMD ["serve", "--config", "/etc/spool/serve.json"]
