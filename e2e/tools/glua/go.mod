// Argo CD runs health checks and actions in this engine; v1.1.1 is what Argo CD 3.2 is built with.
module penstock.dev/e2e/glua

go 1.24

tool github.com/yuin/gopher-lua/cmd/glua

require (
	github.com/chzyer/readline v0.0.0-20180603132655-2972be24d48e // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	golang.org/x/sys v0.0.0-20190204203706-41f3e6584952 // indirect
)
