// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"
)

// DefaultPageSize is how many objects a request asks for at most, as kubectl's do.
const DefaultPageSize = 500

// asTable asks for the columns that the server prints. A server that prints none answers with the objects.
const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// ListOptions say which objects are listed, and how.
type ListOptions struct {
	// Namespace has the objects; empty means those of all namespaces. It does not count for kinds without.
	Namespace string
	// Labels and Fields select objects; nil selects all.
	Labels labels.Selector
	Fields fields.Selector
	// PageSize bounds the objects of one answer; 0 asks for all in one.
	PageSize int64
	// Limit ends the list after so many objects, in the server's order; 0 means all.
	Limit int
	// Columns asks for what the server prints of each object, too.
	Columns bool
}

func (o ListOptions) request() metav1.ListOptions {
	request := metav1.ListOptions{Limit: o.PageSize}
	if o.Labels != nil {
		request.LabelSelector = o.Labels.String()
	}
	if o.Fields != nil {
		request.FieldSelector = o.Fields.String()
	}
	if o.Limit > 0 && (request.Limit == 0 || int64(o.Limit) < request.Limit) {
		request.Limit = int64(o.Limit)
	}
	return request
}

// Item is an object of a list, and what the server prints of it: a cell for each of the list's columns.
type Item struct {
	*unstructured.Unstructured
	Cells []any
}

// List is what a workspace has of a kind.
type List struct {
	Items []Item
	// Columns are those that the server prints, if they were asked for.
	Columns []metav1.TableColumnDefinition
	// ResourceVersion is that of the list, to watch from.
	ResourceVersion string
	// More reports whether ListOptions.Limit left some out.
	More bool
}

// List lists the objects of a kind, page by page. When the server has forgotten the version of the first page
// before the last one was read, it begins again without pages.
func (c *Client) List(ctx context.Context, k Kind, opts ListOptions) (*List, error) {
	request := opts.request()
	all := &List{}
	for {
		page, err := c.page(ctx, k, opts, request)
		if apierrors.IsResourceExpired(err) && request.Continue != "" {
			all, request.Continue, request.Limit = &List{}, "", 0
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", k.Resource.Resource, err)
		}
		all.Items = append(all.Items, page.Items...)
		if all.Columns == nil {
			all.Columns = page.Columns
		}
		all.ResourceVersion = page.ResourceVersion
		request.Continue = page.next
		if opts.Limit > 0 && (len(all.Items) > opts.Limit || len(all.Items) == opts.Limit && page.next != "") {
			all.Items, all.More = all.Items[:opts.Limit], true
			return all, nil
		}
		if page.next == "" {
			return all, nil
		}
	}
}

// Get reads one object, with the columns that the server prints if they are asked for.
func (c *Client) Get(ctx context.Context, k Kind, namespace, name string, columns bool) (*List, error) {
	if columns {
		page, err := c.table(c.request(k, namespace).Suffix(name).Do(ctx))
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", k.Resource.Resource, name, err)
		}
		return &page.List, nil
	}
	obj, err := c.of(k, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", k.Resource.Resource, name, err)
	}
	return &List{Items: []Item{{Unstructured: obj}}, ResourceVersion: obj.GetResourceVersion()}, nil
}

// page is one answer of a list, and the token of the next one.
type page struct {
	List
	next string
}

func (c *Client) page(ctx context.Context, k Kind, opts ListOptions, request metav1.ListOptions) (*page, error) {
	if opts.Columns {
		return c.table(c.request(k, opts.Namespace).SpecificallyVersionedParams(&request, parameters, parametersVersion).Do(ctx))
	}
	list, err := c.of(k, opts.Namespace).List(ctx, request)
	if err != nil {
		return nil, err
	}
	p := &page{next: list.GetContinue()}
	p.ResourceVersion = list.GetResourceVersion()
	for i := range list.Items {
		p.Items = append(p.Items, Item{Unstructured: &list.Items[i]})
	}
	return p, nil
}

// request begins a request for objects of a kind as a table, whose rows have the whole objects.
func (c *Client) request(k Kind, namespace string) *rest.Request {
	segments := []string{"apis", k.Resource.Group, k.Resource.Version}
	if k.Namespaced && namespace != "" {
		segments = append(segments, "namespaces", namespace)
	}
	return c.raw.Get().AbsPath(append(segments, k.Resource.Resource)...).
		SetHeader("Accept", asTable).Param("includeObject", string(metav1.IncludeObject))
}

// table reads the answer to such a request.
func (c *Client) table(result rest.Result) (*page, error) {
	body, err := result.Raw()
	if err != nil {
		return nil, result.Error()
	}
	return readTable(body)
}

// readTable reads a table, or the object or list that a server without tables answers.
func readTable(body []byte) (*page, error) {
	var table metav1.Table
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &table); err != nil {
		return nil, fmt.Errorf("reading the server's answer: %w", err)
	}
	p := &page{next: table.Continue}
	if table.Kind != "Table" {
		return p, p.readObjects(body)
	}
	p.Columns, p.ResourceVersion = table.ColumnDefinitions, table.ResourceVersion
	for _, row := range table.Rows {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(row.Object.Raw); err != nil {
			return nil, fmt.Errorf("reading the server's answer: %w", err)
		}
		p.Items = append(p.Items, Item{obj, row.Cells})
	}
	return p, nil
}

func (p *page) readObjects(body []byte) error {
	found, err := runtime.Decode(unstructured.UnstructuredJSONScheme, body)
	if err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	switch found := found.(type) {
	case *unstructured.UnstructuredList:
		p.ResourceVersion, p.next = found.GetResourceVersion(), found.GetContinue()
		for i := range found.Items {
			p.Items = append(p.Items, Item{Unstructured: &found.Items[i]})
		}
	case *unstructured.Unstructured:
		p.ResourceVersion = found.GetResourceVersion()
		p.Items = []Item{{Unstructured: found}}
	}
	return nil
}
