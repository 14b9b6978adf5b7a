# andornot on a CPU: `docker build -t andornot .`, then see docs/install.md.
FROM python:3.13-slim AS build
WORKDIR /source
RUN python -m venv /opt/andornot
COPY constraints.txt ./
# The CPU build of torch is a quarter of the default one.
RUN version=$(sed -n 's/^torch==//p' constraints.txt) \
    && /opt/andornot/bin/pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu "torch==${version}"
COPY pyproject.toml README.md LICENSE THIRD-PARTY.md ./
COPY src ./src
RUN /opt/andornot/bin/pip install --no-cache-dir --constraint constraints.txt '.[heic,raw]'

FROM python:3.13-slim
# A font for contact sheets; libgomp for torch.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends fonts-dejavu-core libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home andornot \
    && mkdir /photos /data \
    && chown andornot /data
COPY --from=build /opt/andornot /opt/andornot
ENV PATH=/opt/andornot/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/data/cache
USER 10001
WORKDIR /data
# Mount photos with :ro. Galleries and caches are in /data.
VOLUME ["/photos", "/data"]
EXPOSE 8008
# Any answer is healthy: without the token it is 401.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "from http.client import HTTPConnection; c = HTTPConnection('127.0.0.1', 8008, timeout=4); c.request('GET', '/'); c.getresponse()"]
ENTRYPOINT ["andornot"]
CMD ["serve", "--gallery", "/data/gallery", "--host", "0.0.0.0", "--port", "8008"]
