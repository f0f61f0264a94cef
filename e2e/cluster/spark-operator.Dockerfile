# Kubeflow's operator of SparkApplications: its own binary over the image that its drivers run. One
# image serves both, so that the nodes need not have two.
ARG SPARK_IMAGE
FROM ${SPARK_IMAGE}
USER 0
COPY spark-operator /usr/bin/spark-operator
RUN mkdir -p /etc/k8s-webhook-server/serving-certs \
 && chown -R 185:0 /etc/k8s-webhook-server \
 && printf '%s\n' '#!/bin/sh' 'case ${1:-} in controller | webhook) exec spark-operator "$@" ;; esac' \
      'exec /opt/penstock/spark/driver "$@"' >/usr/bin/entry \
 && chmod 0755 /usr/bin/entry
USER 185:0
ENTRYPOINT ["/usr/bin/entry"]
