module github.com/sandbar-dev/sandbar/hack/stack

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	golang.org/x/sys v0.47.0 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)
