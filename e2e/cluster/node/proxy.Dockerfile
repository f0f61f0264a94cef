# kube-proxy with the tools that it calls; the pod network's agent runs on it too.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install -y --no-install-recommends iptables nftables conntrack iproute2 kmod \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
COPY kube-proxy /usr/local/bin/kube-proxy
