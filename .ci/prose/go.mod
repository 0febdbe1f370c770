module github.com/eventquota/eventquota/ci/prose

go 1.26.0

require (
	github.com/jdkato/prose/v3 v3.2.3
	github.com/yuin/goldmark v1.8.7
	sigs.k8s.io/yaml v1.6.0
)

require (
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	gopkg.in/neurosnap/sentences.v1 v1.0.6 // indirect
)
