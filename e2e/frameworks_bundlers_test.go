// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import "testing"

// bundlerFrameworks are the rows of docs/frameworks.md that stand on webpack-dev-server or, as Angular does, on a server
// that makes the same checks. Their WebSocket is refused if its Origin is not theirs, and then no edit arrives.
func bundlerFrameworks(t *testing.T) map[string]framework {
	t.Helper()
	return map[string]framework{
		"webpack-dev-server": npmInstall(npmTemplate{name: "webpack-dev-server", files: webpackFiles}, framework{
			path: "/", file: "src/text.js", text: "Hello from webpack", hot: "[webpack-dev-server] connected",
		}),
		"angular": npmInstall(npmTemplate{name: "angular", create: documented(t, "@angular/cli", angularVersion)}, framework{
			dev:  []string{"--start-command", "npx ng serve --host 0.0.0.0 --port $PORT"},
			path: "/", file: "src/app/app.html", text: "Congratulations! Your app is running", hot: "[vite] connected.",
		}),
		"vue-cli": npmInstall(npmTemplate{name: "vue-cli", files: vueFiles}, framework{
			dev:  []string{"--start-command", "npx vue-cli-service serve --port $PORT"},
			path: "/", file: "src/App.vue", text: "Hello from Vue CLI", quiet: true,
		}),
	}
}

// angularVersion is the one of @angular/cli.
const angularVersion = "22.2.7"

// webpackFiles are a project with the one setting of docs/frameworks.md.
var webpackFiles = map[string]string{
	"package.json": `{
  "name": "app",
  "private": true,
  "scripts": {"dev": "webpack serve --mode development --port $PORT --client-web-socket-url auto://0.0.0.0:0/ws"},
  "devDependencies": {"webpack": "5.113.0", "webpack-cli": "7.3.1", "webpack-dev-server": "6.1.0"}
}
`,
	"public/index.html": "<!doctype html><link rel='icon' href='data:,'><body><script src='/main.js'></script></body>\n",
	"src/text.js":       "export const text = 'Hello from webpack';\n",
	"src/index.js": `import { text } from './text.js';

const heading = document.createElement('h1');
const show = () => { heading.textContent = text; };
show();
document.body.append(heading);
module.hot.accept('./text.js', show);
`,
}

// vueFiles are a project with the one setting of docs/frameworks.md.
var vueFiles = map[string]string{
	"package.json": `{
  "name": "app",
  "private": true,
  "scripts": {"serve": "vue-cli-service serve"},
  "dependencies": {"vue": "3.5.45"},
  "devDependencies": {"@vue/cli-service": "5.0.9"},
  "browserslist": ["last 2 Chrome versions"]
}
`,
	"public/index.html": "<!doctype html><html><head><link rel='icon' href='data:,'></head><body><div id='app'></div></body></html>\n",
	"src/main.js":       "import { createApp } from 'vue';\nimport App from './App.vue';\n\ncreateApp(App).mount('#app');\n",
	"src/App.vue":       "<template>\n  <h1>Hello from Vue CLI</h1>\n</template>\n\n<script>\nexport default { name: 'App' };\n</script>\n",
	"vue.config.js":     "module.exports = { devServer: { client: { webSocketURL: 'auto://0.0.0.0:0/ws' } } };\n",
}
