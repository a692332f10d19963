module github.com/sandbar-dev/sandbar/hack/stack

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/sync v0.22.0
	golang.org/x/sys v0.47.0
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/kr/pretty v0.1.0 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	gopkg.in/check.v1 v1.0.0-20180628173108-788fd7840127 // indirect
)
