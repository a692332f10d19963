// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// Documents is where the document of a Service comes from.
type Documents interface {
	// Watch calls apply, one call at a time, with each document from now on, and with nil when there is none. It returns when ctx
	// ends.
	Watch(ctx context.Context, apply func(document []byte)) error
}

// configMap is the key of the ConfigMap intercept.ConfigMap.
type configMap struct {
	client         rest.Interface
	namespace, key string
}

// InConfigMap returns the document of a Service in the ConfigMap of its namespace. It is read with the rights get, list and
// watch on that one ConfigMap.
func InConfigMap(config *rest.Config, namespace, service string) (Documents, error) {
	scheme := runtime.NewScheme()
	// Only these: the kinds of all of Kubernetes would be several MiB of memory.
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the kinds of Kubernetes: %w", err)
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the ConfigMap: %w", err)
	}
	return &configMap{client, namespace, intercept.Key(service)}, nil
}

// Watch implements Documents. When the API server is away the informer tries again, and the last document stays.
func (c *configMap) Watch(ctx context.Context, apply func(document []byte)) error {
	// The API server grants list and watch of one name only with this selector.
	one := fields.OneTermEqualSelector(metav1.ObjectNameField, intercept.ConfigMap)
	source := cache.NewListWatchFromClient(c.client, "configmaps", c.namespace, one)
	informer := cache.NewSharedInformer(source, &corev1.ConfigMap{}, 0)
	var last *string
	changed := func(found *corev1.ConfigMap) {
		document, ok := found.Data[c.key]
		switch {
		case !ok:
			last = nil
			apply(nil)
		case last == nil || *last != document: // the ConfigMap has those of other Services, too
			last = &document
			apply([]byte(document))
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { each(object, changed) },
		UpdateFunc: func(_, object any) { each(object, changed) },
		DeleteFunc: func(any) { last = nil; apply(nil) },
	}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("watching the ConfigMap: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

func each(object any, changed func(*corev1.ConfigMap)) {
	if found, ok := object.(*corev1.ConfigMap); ok && found.Name == intercept.ConfigMap {
		changed(found)
	}
}
