# One binary on a base without a shell, run by a user without rights.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked && cp target/release/holdline /holdline && mkdir /empty

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /holdline /usr/local/bin/holdline
# A named volume takes over the owner of the folder that it covers.
COPY --from=build --chown=nonroot:nonroot /empty /data
USER nonroot
ENV HOLDLINE_DATA_DIR=/data HOLDLINE_CONFIG=/etc/holdline/config.json HOLDLINE_HOST=0.0.0.0
VOLUME /data
# HTTP, gossip (UDP), node to node.
EXPOSE 8080/tcp 10101/udp 10102/tcp
ENTRYPOINT ["holdline"]
CMD ["serve"]
