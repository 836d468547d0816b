/**
 * Scripts that complete sbx in shells. Each asks sbx for the candidates of the last of its words: so what
 * completes is in one place, in TypeScript, and a script stays right when sbx is updated.
 *
 * An answer has a line for each word, with a tab before its description. A line that begins with a tab
 * names the paths that the shell is to offer too: `files` or `folders`. A word that ends in `:`, `=`
 * or `/` goes on, without a blank.
 */
export const SCRIPTS: Readonly<Record<string, string>> = {
  // bash splits words at : and = too, replaces only the last part, and quotes nothing itself.
  bash: `_sbx() {
  local line word trimmed last cut= breaks= quote= paths= i rest=\${COMP_LINE:0:COMP_POINT}
  local -a typed=()
  COMPREPLY=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    trimmed=\${rest#"\${rest%%[![:space:]]*}"}
    word=\${COMP_WORDS[i]}
    ((i == COMP_CWORD)) && word=$trimmed
    if ((i > 0)) && [[ -n $word && $trimmed == "$rest" ]]; then
      typed[\${#typed[@]}-1]+=$word
    else
      typed+=("$word")
    fi
    rest=\${trimmed#"$word"}
  done
  last=\${typed[\${#typed[@]}-1]}
  case $last in [\\'\\"]*) quote=1 last=\${last:1} ;; esac
  [[ $COMP_WORDBREAKS == *:* ]] && breaks=:
  [[ $COMP_WORDBREAKS == *=* ]] && breaks+==
  [[ -z $breaks || -n $quote ]] || cut=\${last%"\${last##*["$breaks"]}"}
  typed[\${#typed[@]}-1]=$last
  while IFS= read -r line; do
    word=\${line%%$'\\t'*}
    word=\${word#"$cut"}
    case $line in
      $'\\t'*) paths=\${line#$'\\t'} ;;
      *) [[ -n $quote ]] || printf -v word %q "$word"
        [[ $word == *[^A-Za-z0-9._:/@=+,~-]* && -n $quote ]] || COMPREPLY+=("$word") ;;
    esac
  done < <(sbx completions words -- "\${typed[@]:1}" 2>/dev/null)
  if [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == *[:=/] ]]; then compopt -o nospace 2>/dev/null; fi
  if [[ -n $paths && \${#COMPREPLY[@]} -eq 0 ]]; then
    [[ $paths == files ]] && compopt -o default 2>/dev/null || compopt -o dirnames 2>/dev/null
  elif [[ -n $paths ]]; then
    while IFS= read -r word; do
      printf -v word %q "$word"
      COMPREPLY+=("$word")
    done < <(compgen -"$([[ $paths == files ]] && echo f || echo d)" -- "\${last#"$cut"}")
  fi
}
complete -F _sbx sbx`,
  zsh: `#compdef sbx
_sbx() {
  local line word about paths= shown=1
  local -a whole open
  for line in "\${(@f)$(sbx completions words -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)}"; do
    word=\${line%%$'\\t'*} about=\${line#*$'\\t'}
    case $line in
      '') ;;
      $'\\t'*) paths=$about ;;
      *[:=/]$'\\t'*) open+=("\${word//:/\\\\:}:$about") ;;
      *) whole+=("\${word//:/\\\\:}:$about") ;;
    esac
  done
  if (( \${#whole} )); then _describe sbx whole && shown=0; fi
  if (( \${#open} )); then _describe sbx open -S '' && shown=0; fi
  if [[ -n $paths ]]; then
    [[ $PREFIX == --*=* ]] && compset -P '--[^=]#='
    if [[ $paths == files ]]; then _files && shown=0; else _files -/ && shown=0; fi
  fi
  return $shown
}
# As a file of $fpath this is the function itself; otherwise it is read after compinit.
if [[ $funcstack[1] == _sbx ]]; then _sbx "$@"; else compdef _sbx sbx; fi`,
  fish: `function __sbx_words
  set -l words (commandline -opc)
  set -l token (commandline -ct)
  for line in (sbx completions words -- $words[2..-1] "$token" 2>/dev/null)
    switch $line
      case \\t'*'
        set -l head (string match -r -- '^--[^=]+=' $token)
        set -l rest (string replace -r -- '^--[^=]+=' '' "$token")
        for path in (test $line = \\tfiles; and __fish_complete_path "$rest"; or __fish_complete_directories "$rest")
          printf '%s%s\\n' "$head" $path
        end
      case '*'
        printf '%s\\n' $line
    end
  end
end
complete -c sbx -f -k -a '(__sbx_words)'`,
};
