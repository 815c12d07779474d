variable "what" {
  description = "Name of what is protected, for the message."
  type        = string
}

variable "protect" {
  description = "Whether Terraform must not destroy it."
  type        = bool
}

variable "ids" {
  description = "Ids of what must not be replaced either."
  type        = list(string)
  default     = []
}
