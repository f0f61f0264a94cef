"""The Kubernetes API behind the ports: metadata in ConfigMaps, the Lease, and who may ask.

What belongs here: requests, their outcomes in the words of the ports, and where credentials are
found (a pod's mounted token, a person's kubeconfig). What does not: decisions, which are the
cores'; and the making of objects, which is the operator's: a worker has no right to create any.
"""
