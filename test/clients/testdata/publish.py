# Creates the Events that it reads from standard input, one a line, and writes the result of each.
import json
import sys

from kubernetes import client, config

config.load_kube_config(config_file=sys.argv[1])
api = client.CoreV1Api()
for line in sys.stdin:
    write = json.loads(line)
    result = {}
    try:
        api.create_namespaced_event(write['namespace'], write['event'])
    except client.ApiException as e:
        if not e.status:  # not a status
            raise
        result = {'exception': f'ApiException {e.status}'}
    print(json.dumps(result), flush=True)
