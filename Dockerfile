# The gateway's image: what it needs of Debian, its Python, the packages of requirements.lock. No torch, no compiler, no
# package manager, no Postgres: the ledger's database is named in the configuration.
#
#   docker build -t grounding-gateway .
#   docker build -t grounding-gateway --secret id=pip,src=$HOME/.config/pip/pip.conf .    # behind a package mirror
#
# It runs as user 10001 over a read-only root. What it writes: /var/lib/grounding-gateway (a volume) and /tmp.
# `make image-rehearsal` runs these steps without a container engine and says how large the root file system is.

FROM debian:bookworm-slim AS base
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 tini

FROM base AS build
RUN apt-get install -y --no-install-recommends python3-venv binutils
WORKDIR /src
COPY requirements.lock ./
RUN python3 -m venv /opt/grounding-gateway
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /opt/grounding-gateway/bin/pip install --no-cache-dir --no-compile --no-deps --only-binary :all: --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway/
COPY retrieval retrieval/
COPY checks checks/
COPY migrations migrations/
RUN /opt/grounding-gateway/bin/pip install --no-cache-dir --no-compile --no-deps --no-index --no-build-isolation .
# What serving never loads: the own Postgres, build tools, what libraries bring for their optional parts, C headers and
# symbols. Then bytecode of what it does load, because the root is read-only later.
COPY scripts/image_slim.sh scripts/image_modules.py /tmp/
RUN sh -e /tmp/image_slim.sh /opt/grounding-gateway && /opt/grounding-gateway/bin/python /tmp/image_modules.py

FROM base AS root
RUN groupadd --gid 10001 gateway \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/grounding-gateway --shell /usr/sbin/nologin gateway \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/grounding-gateway \
    && install -d /etc/grounding-gateway
# The list of installed packages stays, for scanners.
RUN rm -rf /var/lib/apt /var/cache/* /var/log/* /var/lib/dpkg/info /usr/share/zoneinfo/posix /usr/share/zoneinfo/right \
    /usr/lib/*/gconv /usr/lib/*/perl* /usr/share/perl* /usr/bin/perl* /usr/bin/apt* /usr/lib/apt /usr/lib/*/libapt* \
    /usr/bin/dpkg* /usr/lib/dpkg /usr/share/dpkg /usr/lib/python3*/pydoc_data /usr/lib/python3*/lib2to3
COPY --from=build /opt/grounding-gateway /opt/grounding-gateway

FROM scratch
COPY --from=root / /
ENV PATH=/opt/grounding-gateway/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GATEWAY_CONFIG=/etc/grounding-gateway/gateway.yaml \
    GATEWAY_DATA_DIR=/var/lib/grounding-gateway
LABEL org.opencontainers.image.title="Grounding Gateway" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 10001:10001
WORKDIR /var/lib/grounding-gateway
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "grounding-gateway"]
CMD ["serve"]
