// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// socketFrameworks are the rows of docs/frameworks.md whose servers compare the Origin of a WebSocket with their own.
func socketFrameworks(t *testing.T) map[string]framework {
	t.Helper()
	return map[string]framework{
		"channels": fromDebian([]string{
			"python3-daphne", "python3-django-channels", "python3-django", "python3-asgiref", "python3-sqlparse", "python3-tz", "python3-twisted", "python3-autobahn",
			"python3-txaio", "python3-hyperlink", "python3-idna", "python3-incremental", "python3-constantly", "python3-automat", "python3-attr", "python3-six",
			"python3-zope.interface", "python3-openssl", "python3-cryptography", "python3-cffi-backend", "python3-service-identity", "python3-pyasn1",
			"python3-pyasn1-modules", "python3-pkg-resources", "python3-bcrypt", "python3-typing-extensions",
		}, makeChannels, framework{
			dev: []string{
				"--toolchain", "python", "--start-command",
				". .venv/bin/activate && exec python manage.py runserver 0.0.0.0:$PORT",
			},
			path: "/", file: "mysite/urls.py", text: "Hello from Channels", more: theSocketSays("the socket says welcome"),
		}),
		"rails": {
			project: makeRails, carriedTo: rubyRoot,
			install: []string{"sh", "-c", ruby("-v")},
			dev:     []string{"--start-command", ruby("-S puma -b tcp://0.0.0.0:$PORT")},
			path:    "/", file: "app/views/pages/show.html.erb", text: "Hello from Rails", form: "form", answer: "received",
			more: theSocketSays("the cable says welcome"),
		},
	}
}

// theSocketSays: the page shows what came by its WebSocket.
func theSocketSays(text string) func(*testing.T, *terminal, *tab, *screen) {
	return func(t *testing.T, _ *terminal, p *tab, _ *screen) {
		t.Helper()
		p.visit(eval[string](p, "location.origin") + "/")
		until(p, fmt.Sprintf("document.body.innerText.includes(%q)", text), true)
	}
}

// makeChannels is Django's own template with daphne, Channels and a consumer behind the validator of Channels'
// documentation. It has no settings for previews.
func makeChannels(t *testing.T, dir, site string) {
	start := exec.CommandContext(t.Context(), "/usr/bin/python3", "-m", "django", "startproject", "mysite", dir)
	start.Env = append(os.Environ(), "PYTHONPATH="+site)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("django-admin startproject: %v\n%s", err, out)
	}
	change(t, filepath.Join(dir, "mysite", "settings.py"), "INSTALLED_APPS = [", "ASGI_APPLICATION = 'mysite.asgi.application'\n\nINSTALLED_APPS = [\n    'daphne',\n    'channels',")
	writeAll(t, dir, map[string]string{
		"mysite/asgi.py": `import os

from channels.generic.websocket import WebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application
from django.urls import path

os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'mysite.settings')


class Welcome(WebsocketConsumer):
    def connect(self):
        self.accept()
        self.send(text_data='the socket says welcome')


application = ProtocolTypeRouter({
    'http': get_asgi_application(),
    'websocket': AllowedHostsOriginValidator(URLRouter([path('ws/', Welcome.as_asgi())])),
})
`,
		"mysite/urls.py": `from django.http import HttpResponse
from django.urls import path

PAGE = '''<!doctype html><link rel="icon" href="data:,"><h1>Hello from Channels</h1><p id="said"></p>
<script>
new WebSocket(location.origin.replace(/^http/, 'ws') + '/ws/').onmessage = m => { document.getElementById('said').textContent = m.data; };
</script>'''

urlpatterns = [path('', lambda request: HttpResponse(PAGE))]
`,
	})
}

// rubyRoot is where a sandbox has the packages of Debian in which Ruby and Rails are.
const rubyRoot = "/sandbar/volume/.sandbar/cache/debian"

// ruby is a command of a shell that runs Debian's ruby in rubyRoot.
func ruby(args string) string {
	under := func(paths ...string) string { return rubyRoot + strings.Join(paths, ":"+rubyRoot) }
	const lib, vendor = "/usr/lib/ruby", "/usr/lib/x86_64-linux-gnu/ruby"
	return "export LD_LIBRARY_PATH=" + under("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu") +
		" RUBYLIB=" + under(lib+"/vendor_ruby", vendor+"/vendor_ruby/3.1.0", lib+"/3.1.0", vendor+"/3.1.0") +
		" GEM_PATH=" + under("/usr/share/rubygems-integration/all", "/usr/share/rubygems-integration/3.1.0", "/usr/lib/x86_64-linux-gnu/rubygems-integration/3.1.0", lib+"/gems/3.1.0") +
		" PATH=" + rubyRoot + "/usr/bin:$PATH; exec ruby3.1 " + args
}

// debianRoot unpacks packages of Debian, with all that they depend on, and leaves out the C library, which an image has.
func debianRoot(t *testing.T, packages ...string) string {
	t.Helper()
	unused := []string{"doc", "man", "locale", "ri", "perl", "perl5"}
	return filepath.Join(kept(t, packages[0], fmt.Sprintf("%q without %q", packages, unused), func(dir string) error {
		archives, root, status := filepath.Join(dir, "archives"), filepath.Join(dir, "root"), filepath.Join(dir, "status")
		if err := errors.Join(os.MkdirAll(filepath.Join(archives, "partial"), 0o755), os.Mkdir(root, 0o755), os.WriteFile(status, nil, 0o600)); err != nil {
			return err
		}
		download := exec.CommandContext(t.Context(), "apt-get", append([]string{
			"-qq", "-y", "--no-install-recommends", "--download-only", "-o", "Debug::NoLocking=1",
			"-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + archives, "install",
		}, packages...)...)
		if out, err := download.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get install --download-only: %w\n%s", err, out)
		}
		debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
		if err != nil {
			return err
		}
		for _, deb := range debs {
			if strings.HasPrefix(filepath.Base(deb), "libc6_") {
				continue
			}
			if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "-x", deb, root).CombinedOutput(); err != nil {
				return fmt.Errorf("dpkg-deb -x %s: %w\n%s", deb, err, out)
			}
		}
		for _, folder := range unused {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, "usr", "share", folder)))
		}
		return errors.Join(err, os.RemoveAll(archives))
	}), "root")
}

// makeRails is a small program of Rails with Action Cable, by the settings that Rails has for development and the one
// of docs/frameworks.md, for the domain of this stack. The image has no time zones, and Debian's are in rubyRoot.
func makeRails(t *testing.T, dir string) string {
	writeAll(t, dir, map[string]string{
		"config.ru": "require_relative 'config/application'\nApp::Application.initialize!\nrun App::Application\n",
		"config/application.rb": `ENV['RAILS_ENV'] ||= 'development'
require 'logger'
require 'rails'
require 'action_controller/railtie'
require 'action_view/railtie'
require 'action_cable/engine'

TZInfo::DataSource.set(:zoneinfo, '` + rubyRoot + `/usr/share/zoneinfo')

module App
  class Application < Rails::Application
    config.load_defaults 6.1
    config.cache_classes = false
    config.eager_load = false
    config.secret_key_base = 'of a sandbox'
    config.logger = ActiveSupport::Logger.new(STDOUT)
    config.hosts << '.preview.localhost'
  end
end
`,
		"config/cable.yml":                          "development:\n  adapter: async\n",
		"config/routes.rb":                          "Rails.application.routes.draw do\n  root to: 'pages#show'\n  post '/form', to: 'pages#form'\nend\n",
		"app/controllers/application_controller.rb": "class ApplicationController < ActionController::Base\nend\n",
		"app/controllers/pages_controller.rb": `class PagesController < ApplicationController
  def show; end

  def form
    render html: '<link rel="icon" href="data:,">received'.html_safe
  end
end
`,
		"app/channels/application_cable/connection.rb": "module ApplicationCable\n  class Connection < ActionCable::Connection::Base\n  end\nend\n",
		"app/views/pages/show.html.erb": `<!doctype html><link rel="icon" href="data:,">
<h1>Hello from Rails</h1><p id="said"></p>
<%= form_with url: '/form', id: 'form', local: true do %><% end %>
<script>
new WebSocket(location.origin.replace(/^http/, 'ws') + '/cable', ['actioncable-v1-json']).onmessage = m => {
  if (JSON.parse(m.data).type === 'welcome') document.getElementById('said').textContent = 'the cable says welcome';
};
</script>
`,
	})
	return debianRoot(t, "ruby-rails", "puma", "ruby")
}

// writeAll writes the files of a project.
func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
