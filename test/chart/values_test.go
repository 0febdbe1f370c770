package chart

import (
	"strings"
	"testing"
)

func TestInvalidValuesAreRefused(t *testing.T) {
	const redis = "addresses: [redis:6379]"
	for says, test := range map[string]struct{ values, refusal string }{
		"a value that is not known":            {"replicas: 3", "additional properties 'replicas' not allowed"},
		"one that is not known further down":   {"redis: {adresses: []}", "at '/redis': additional properties 'adresses' not allowed"},
		"no replicas":                          {"replicaCount: 0", "at '/replicaCount': minimum: got 0, want 1"},
		"a number that is text":                {`replicaCount: "3"`, "at '/replicaCount': got string, want integer"},
		"a value that is needed and taken":     {"replicaCount: null", "missing property 'replicaCount'"},
		"a failurePolicy that locks out":       {"webhook: {failurePolicy: Fail}", "at '/webhook/failurePolicy': value must be 'Ignore'"},
		"a certificate of nobody":              {"certificates: {mode: letsEncrypt}", "at '/certificates/mode': value must be one of 'selfManaged', 'certManager', 'provided'"},
		"a CA that is indented":                {"certificates: {provided: {caBundle: '  -----BEGIN CERTIFICATE-----'}}", "at '/certificates/provided/caBundle'"},
		"a CA in base64":                       {"certificates: {provided: {caBundle: LS0t}}", "at '/certificates/provided/caBundle'"},
		"Redis without a port":                 {"redis: {addresses: [redis]}", "at '/redis/addresses/0'"},
		"a repository with a tag":              {"image: {repository: 'ghcr.io/eventquota/eventquota:v1'}", "at '/image/repository'"},
		"a Secret without a name":              {"imagePullSecrets: [{name: ''}]", "at '/imagePullSecrets/0/name'"},
		"a name with two dots":                 {"redis: {existingSecret: a..b}", "at '/redis/existingSecret'"},
		"a label with a space":                 {"podLabels: {team: a b}", "at '/podLabels/team'"},
		"a label whose name has a space":       {"nodeSelector: {a b: c}", "at '/nodeSelector': additional properties 'a b' not allowed"},
		"an annotation with two slashes":       {"podAnnotations: {a/b/c: d}", "at '/podAnnotations': additional properties 'a/b/c' not allowed"},
		"a block of too many bits":             {"networkPolicy: {apiServer: {cidrs: [10.0.0.0/33]}}", "at '/networkPolicy/apiServer/cidrs/0'"},
		"a collector without a port":           {"sink: {otlpEndpoint: 'http://collector4317'}", "at '/sink/otlpEndpoint'"},
		"a collector with a space":             {"sink: {otlpEndpoint: 'http://a b:4317'}", "at '/sink/otlpEndpoint'"},
		"a prefix with braces":                 {"redis: {prefix: '{a}'}", "at '/redis/prefix'"},
		"a digest of another kind":             {"image: {digest: 'md5:1'}", "at '/image/digest'"},
		"a policy of pulling that is none":     {"image: {pullPolicy: Sometimes}", "at '/image/pullPolicy'"},
		"a memory limit in bytes":              {"resources: {limits: {memory: 512000000}}", "at '/resources/limits/memory': got number, want string"},
		"a toleration with a typing mistake":   {"tolerations: [{kee: a}]", "at '/tolerations/0': additional properties 'kee' not allowed"},
		"an argument that is no flag":          {"extraArgs: [serve]", "at '/extraArgs/0'"},
		"an address in place of a block":       {"networkPolicy: {apiServer: {cidrs: [10.0.0.1]}}", "at '/networkPolicy/apiServer/cidrs/0'"},
		"no ports, which would be all of them": {"networkPolicy: {redis: {ports: []}}", "at '/networkPolicy/redis/ports': minItems: got 0, want 1"},
		"a ceiling without tokens":             {"ceiling: {tokens: 0}", "at '/ceiling/tokens': minimum: got 0, want 1"},
		"a ceiling with too high a burst":      {"ceiling: {burst: 1000001}", "at '/ceiling/burst': maximum: got"},
		"a namespace without tokens":           {"ceiling: {namespace: {tokens: 0}}", "at '/ceiling/namespace/tokens': minimum: got 0, want 1"},
		"a budget of nothing":                  {"podDisruptionBudget: {maxUnavailable: 0}", "at '/podDisruptionBudget/maxUnavailable'"},

		"a collector without a scheme":       {"sink: {otlpEndpoint: 'collector:4317'}", "at '/sink/otlpEndpoint'"},
		"a choice of Events that is none":    {"sink: {events: Some}", "at '/sink/events': value must be one of 'All', 'Refused', 'Warnings', 'None'"},
		"a variable of something else":       {"sink: {env: [{name: GOGC, value: '1'}]}", "at '/sink/env/0/name'"},
		"a priority level without a seat":    {"priorityLevels: {events: {seats: 0}}", "at '/priorityLevels/events/seats': minimum: got 0, want 1"},
		"a priority level that is not known": {"priorityLevels: {system: {seats: 1}}", "at '/priorityLevels': additional properties 'system' not allowed"},

		"a port of root":                 {"webhook: {port: 443}", "at '/webhook/port': minimum: got 443, want 1,024"},
		"a policy of names that is none": {"dnsPolicy: Host", "at '/dnsPolicy': value must be one of"},

		"a timeout that holds seats":       {"webhook: {timeoutSeconds: 6}", "at '/webhook/timeoutSeconds': maximum: got 6, want 5"},
		"no timeout":                       {"webhook: {timeoutSeconds: 0}", "at '/webhook/timeoutSeconds': minimum: got 0, want 1"},
		"a condition of nothing":           {"webhook: {matchConditions: [{name: a}]}", "at '/webhook/matchConditions/0': missing property 'expression'"},
		"the chart's own condition":        {"webhook: {matchConditions: [{name: not-the-settler, expression: 'true'}]}", "at '/webhook/matchConditions/0/name'"},
		"a selector with a typing mistake": {"webhook: {namespaceSelector: {matchLabel: {}}}", "at '/webhook/namespaceSelector': additional properties 'matchLabel' not allowed"},
		"a user that is a name":            {"podSecurityContext: {runAsUser: nobody}", "at '/podSecurityContext/runAsUser': got string, want integer"},
		"a pod's field of a container":     {"containerSecurityContext: {fsGroup: 1}", "at '/containerSecurityContext': additional properties 'fsGroup' not allowed"},

		"a variable without a name":   {"env: [{value: a}]", "at '/env/0': missing property 'name'"},
		"the memory limit of Go":      {"env: [{name: GOMEMLIMIT, value: 1GiB}]", "at '/env/0/name'"},
		"a volume of the chart's own": {"extraVolumes: [{name: certs, emptyDir: {}}]", "at '/extraVolumes/0/name'"},
		"a mount nowhere":             {"extraVolumeMounts: [{name: a}]", "at '/extraVolumeMounts/0': missing property 'mountPath'"},

		"a variable that is there twice": {
			"{sink: {env: [{name: OTEL_A, value: a}]}, env: [{name: OTEL_A, value: b}]}",
			"sink.env and env have OTEL_A twice",
		},
		"a mount of no volume": {
			"extraVolumeMounts: [{name: a, mountPath: /a}]",
			"extraVolumeMounts has a, which is not in extraVolumes",
		},
		"a number of nodes without a quota": {"quotas: {preset: 200}", "at '/quotas/preset': value must be one of 'none', 100, 1000, 5000"},
		"a namespace of capitals":           {"namespaceOverride: Events", "at '/namespaceOverride'"},

		"a test in the other namespace": {
			"{namespaceOverride: default}",
			"test.namespace is default, the namespace of the webhook, whose Events the webhook does not see",
		},
		"a monitor without a token": {
			"podMonitor: {enabled: true}",
			"podMonitor.enabled with metrics.secure needs podMonitor.tokenSecret.name and podMonitor.tokenSecret.key",
		},
		"two monitors": {
			"{podMonitor: {enabled: true, tokenSecret: {name: a}}, serviceMonitor: {enabled: true}}",
			"podMonitor.enabled and serviceMonitor.enabled cannot both be true: each replica would be counted twice",
		},
		"the kubelet's port": {
			"hostNetwork: true",
			"hostNetwork is true, so webhook.port cannot be 10250, which the node's kubelet uses",
		},
		"the port of another program of the node": {
			"{hostNetwork: true, webhook: {port: 9443}, metrics: {port: 10256}}",
			"hostNetwork is true, so metrics.port cannot be 10256, which the node's kube-proxy uses",
		},
		"one port for two": {
			"webhook: {port: 8443}",
			"webhook.port and metrics.port are both 8443",
		},
		"replicas that the policy of Redis cannot recognize": {
			"{hostNetwork: true, webhook: {port: 9443}, redis: {tryOut: {enabled: true}}}",
			"hostNetwork is true, so the NetworkPolicy of redis.tryOut cannot tell the replicas from others",
		},
		"more seats for Event writes than for everyone else": {
			"priorityLevels: {serverSeats: 40}",
			"priorityLevels has 24 seats for Event writes: must be at most half of serverSeats, which is 40",
		},
		"replicas that share nothing": {
			"replicaCount: 3",
			"replicaCount is 3, but replicas share their state in Redis: set redis.addresses or redis.tryOut.enabled, or replicaCount to 1",
		},
		"two kinds of Redis": {
			"redis: {" + redis + ", tryOut: {enabled: true}}",
			"redis.tryOut.enabled installs a Redis: of the other values of redis, only database, prefix, existingSecret and passwordKey can be set with it",
		},
		"a password that each rendering would change": {
			"redis: {tryOut: {enabled: true}}",
			"redis.existingSecret is empty, and Helm does not read from the cluster (helm template, Argo CD): each rendering would make another password for redis.tryOut",
		},
		"a Redis for evaluation without a password": {
			"redis: {tryOut: {enabled: true}, existingSecret: a, passwordKey: ''}",
			"redis.passwordKey is empty, but the Redis of redis.tryOut has a password",
		},
		"a Redis that is nowhere": {
			"redis: {existingSecret: a}",
			"redis.addresses is empty, but other values of redis are set",
		},
		"a database of no Redis": {
			"redis: {database: 3}",
			"redis.addresses is empty, but other values of redis are set",
		},
		"a database that the Redis for evaluation lacks": {
			"redis: {tryOut: {enabled: true}, existingSecret: a, database: 16}",
			"redis.database is 16, but the Redis of redis.tryOut has only 0 to 15",
		},
		"a port above all ports": {
			"{redis: {addresses: ['a:65536']}, networkPolicy: {enabled: false}}",
			"redis.addresses has a:65536: the port must be from 1 to 65535",
		},
		"a collector's port above all ports": {
			"{sink: {otlpEndpoint: 'http://a:65536'}, networkPolicy: {enabled: false}}",
			"sink.otlpEndpoint has http://a:65536: the port must be from 1 to 65535",
		},
		"a PriorityClass that only Kubernetes can create": {
			"priorityClass: {name: system-cluster-critical}",
			"priorityClass.name is system-cluster-critical, and only Kubernetes creates such classes: set priorityClass.create to false",
		},
		"a flag that needs rights": {
			"extraArgs: [--workloads]",
			"extraArgs has --workloads, a flag that the chart sets: use its values",
		},
		"servers that are neither sentinels nor a Cluster": {
			"redis: {addresses: ['a:6379', 'b:6379']}",
			"redis.addresses has several addresses, which need redis.cluster or redis.sentinel.master",
		},
		"sentinels and a Cluster": {
			"redis: {" + redis + ", cluster: true, sentinel: {master: a}}",
			"redis.cluster and redis.sentinel.master cannot both be set",
		},
		"a database of a Cluster": {
			"redis: {" + redis + ", cluster: true, database: 1}",
			"redis.database must be 0 with redis.cluster",
		},
		"a user without a password": {
			"redis: {" + redis + ", username: a}",
			"redis.username needs a password: set redis.existingSecret and redis.passwordKey",
		},
		"a sentinel's user without sentinels": {
			"redis: {" + redis + ", existingSecret: a, sentinel: {passwordKey: b}}",
			"redis.sentinel.username and redis.sentinel.passwordKey need redis.sentinel.master",
		},
		"a sentinel's user without a password": {
			"redis: {" + redis + ", sentinel: {master: a, username: b}}",
			"redis.sentinel.username needs redis.sentinel.passwordKey",
		},
		"a CA without TLS": {
			"redis: {" + redis + ", existingSecret: a, tls: {caKey: ca.crt}}",
			"redis.tls.enabled is false, but other values of redis.tls are set",
		},
		"a client certificate without its key": {
			"redis: {" + redis + ", existingSecret: a, tls: {enabled: true, certKey: tls.crt}}",
			"redis.tls.certKey and redis.tls.keyKey must both be set, or neither",
		},
		"a key of no Secret": {
			"redis: {" + redis + ", tls: {enabled: true, caKey: ca.crt}}",
			"redis.existingSecret is empty, but redis.sentinel.passwordKey or a key of redis.tls names one of its keys",
		},
		"a port that the network policy closes": {
			"redis: {addresses: ['redis:6380']}",
			"networkPolicy.redis.ports lacks 6380, the port of redis:6380 in redis.addresses",
		},
		"a collector that the network policy does not let through": {
			"sink: {otlpEndpoint: 'https://collector:4319/v1/logs'}",
			"networkPolicy.sink.ports lacks 4319, the port of https://collector:4319/v1/logs in sink.otlpEndpoint",
		},
		"a certificate that is provided by nobody": {
			"certificates: {mode: provided}",
			"certificates.mode is provided: set certificates.provided.secretName and certificates.provided.caBundle",
		},
		"a provided certificate that would not be used": {
			"certificates: {provided: {secretName: a}}",
			"certificates.provided is set, but certificates.mode is selfManaged",
		},
		"an issuer that would not be used": {
			"certificates: {certManager: {issuerRef: {name: a}}}",
			"certificates.certManager.issuerRef.name is set, but certificates.mode is selfManaged",
		},
		"names of client certificates of no CA": {
			"webhook: {clients: {names: [a]}}",
			"webhook.clients.names is set, but webhook.clients.caConfigMap is empty",
		},
		"a flag that has a value": {
			"extraArgs: [--redis-addresses=a:1]",
			"extraArgs has --redis-addresses=a:1, a flag that the chart sets: use its values",
		},
		"a test that would prove nothing": {
			"test: {namespace: eventquota-system}",
			"test.namespace is eventquota-system, the namespace of the webhook, whose Events the webhook does not see",
		},
	} {
		t.Run(says, func(t *testing.T) {
			_, err := render(namespace, test.values)
			if err == nil {
				t.Fatal("the chart was rendered, want an error")
			}
			if !strings.Contains(err.Error(), test.refusal) {
				t.Errorf("got error\n%v\nwant one that contains\n%s", err, test.refusal)
			}
		})
	}
}
